// Shows what healthd sends, for as long as the page is open.
const main = document.querySelector("main"), live = document.querySelector("#live");
const stream = new EventSource("stream");
stream.onmessage = (event) => { main.innerHTML = event.data; live.textContent = "live"; live.className = "up"; };
stream.onerror = () => { live.textContent = "not live: healthd does not answer"; live.className = "down"; };
