//! The actions of a running site: starts and stops processes, switches masters, prints events.

use daemon::{clock, notify};

use super::{LAST_LINES, Life, Outcome};
use crate::up::child::{self, Order};
use crate::up::master::{self, Master};
use site::service::Service;
use site_up::conductor::{Input, Output, Phase};
use site_up::event::{Ending, Event};
use site_up::screen::Page;
use site_up::view::{State, clean};

impl Life {
    pub(super) fn perform(&mut self) {
        while let Some(output) = self.conductor.poll_output() {
            match output {
                Output::Spawn(service) => self.spawn(service),
                Output::Terminate(service) => self.order(service, Order::Terminate),
                Output::Kill(service) => self.order(service, Order::Kill),
                Output::Tell(event) => self.tell(event),
                Output::Finished => self.finished = true,
            }
        }
        self.dirty = true;
        self.announce_once();
    }

    pub(super) fn spawn(&mut self, service: Service) {
        let process = self.processes.of_mut(service);
        match child::spawn(self.setup.plans.of(service), self.reports.clone()) {
            Ok(running) => {
                process.running = Some(running);
                process.since = Some(clock::now());
                process.starts += 1;
            }
            Err(error) => {
                let ending = Ending::NotRun(error.to_string());
                self.conductor
                    .handle(Input::Ended(service, ending), clock::now());
            }
        }
    }

    pub(super) fn order(&self, service: Service, order: Order) {
        if let Some(running) = &self.processes.of(service).running {
            running.order(order);
        }
    }

    pub(super) fn stop(&mut self) {
        self.page = Page::Stopping;
        notify::stopping();
        self.handle(Input::Stop);
    }

    /// Stops; asked for again, at once.
    pub(super) fn interrupt(&mut self) {
        if self.conductor.is_stopping() {
            self.handle(Input::Hurry);
        } else {
            self.stop();
        }
    }

    pub(super) async fn switch_named(
        &mut self,
        names: &[String],
        up: bool,
    ) -> Result<String, String> {
        let known: Vec<&str> = self.masters.iter().map(Master::name).collect();
        let chosen = master::choose(names, &known)?;
        let mut done = Vec::new();
        for index in chosen {
            done.push(self.switch(index, up).await?);
        }
        Ok(done.join("\n"))
    }

    pub(super) async fn switch(&mut self, index: usize, up: bool) -> Result<String, String> {
        let Some(master) = self.masters.get_mut(index) else {
            return Err(format!("no master {index}"));
        };
        let name = master.name().to_owned();
        let word = if up { "up" } else { "down" };
        if master.is_up() == up {
            return Ok(format!("{name} is {word} already"));
        }
        if up {
            if let Err(error) = master.bring_up().await {
                let what = format!("cannot bring {name} up: {error}");
                self.tell(Event::Trouble { what: what.clone() });
                return Err(what);
            }
        } else {
            master.take_down().await;
        }
        if let Some(view) = self.view.masters.get_mut(index) {
            view.taken_down = !up;
        }
        self.tell(Event::Switched {
            master: name.clone(),
            up,
        });
        Ok(format!("{name} is {word}"))
    }

    pub(super) fn tell(&mut self, event: Event) {
        let at = clock::now().saturating_duration_since(self.started);
        let wanted = self.setup.log || !matches!(event, Event::Log { .. });
        if let Some(printer) = self.printer.as_ref().filter(|_| wanted) {
            let text = clean(&event.to_string());
            printer.print(format!(
                "{:>8.2}s  {:<15} {text}",
                at.as_secs_f64(),
                event.subject()
            ));
            if let Event::Ended { service, .. } = event
                && !self.setup.log
                && let Some(line) = self.view.last_line(service)
            {
                printer.print(format!(
                    "{:>9}  {:<15} its last line: {}",
                    "",
                    "",
                    clean(line)
                ));
            }
        }
        self.view.remember(at, event);
        self.dirty = true;
    }

    /// Tells people who read lines what to try, once, when everything is ready.
    pub(super) fn announce_once(&mut self) {
        if self.was_ready {
            return;
        }
        self.refresh();
        if !self.view.is_ready() {
            return;
        }
        self.was_ready = true;
        notify::ready();
        if let Some(printer) = &self.printer {
            let seconds = self.view.elapsed.as_secs_f64();
            printer.print(format!(
                "\nSite {}, {}, is ready after {seconds:.2} s. Try, in another terminal:\n",
                self.view.site, self.view.domain
            ));
            for line in &self.view.commands {
                printer.print(format!("    {line}"));
            }
            printer.print("\nCtrl-C stops everything.\n".to_owned());
        }
    }

    /// Brings the view up to date with what changes by itself.
    pub(super) fn refresh(&mut self) {
        let now = clock::now();
        self.view.elapsed = now.saturating_duration_since(self.started);
        for service in Service::ALL {
            let state = self.state(service);
            let process = self.processes.of(service);
            let view = self.view.services.of_mut(service);
            view.state = state;
            view.pid = process.running.as_ref().map(|running| running.pid);
            view.uptime = process
                .since
                .map(|since| now.saturating_duration_since(since));
            view.restarts = process.starts.saturating_sub(1);
            view.rate = process.meter.per_second();
        }
    }

    pub(super) fn state(&self, service: Service) -> State {
        if !self.conductor.runs(service) {
            return State::Absent;
        }
        match self.conductor.phase(service) {
            Phase::Waiting => State::Waiting,
            Phase::Starting { .. } => State::Starting,
            Phase::Ready { .. } => match &self.processes.of(service).unready {
                None => State::Ready,
                Some(reasons) => State::NotReady(reasons.clone()),
            },
            Phase::Leaving { .. } => State::Stopping,
            Phase::BackOff { .. } => State::Died(
                self.view
                    .last_line(service)
                    .unwrap_or("it wrote nothing")
                    .to_owned(),
            ),
            Phase::Stopped => State::Stopped,
        }
    }

    pub(super) async fn end(mut self) -> Outcome {
        for master in &mut self.masters {
            master.take_down().await;
        }
        if let Some(printer) = self.printer.take() {
            printer.finish();
        }
        match self.conductor.failed() {
            None => Outcome::Stopped(clock::now().saturating_duration_since(self.started)),
            Some(service) => {
                let lines: Vec<String> = self
                    .view
                    .log
                    .iter()
                    .filter(|(of, _)| *of == service)
                    .map(|(_, line)| clean(line))
                    .collect();
                let skip = lines.len().saturating_sub(LAST_LINES);
                Outcome::Failed(service, lines.into_iter().skip(skip).collect())
            }
        }
    }
}
