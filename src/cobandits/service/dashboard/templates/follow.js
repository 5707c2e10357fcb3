// Decisions as they come: the table is read again every three seconds, and put in the place of the old one.
// The page itself stays, and so does where its reader is.
setInterval(async () => {
  const table = document.querySelector("#decisions");
  if (document.hidden || table.contains(document.activeElement)) return;
  const answer = await fetch(location.href).catch(() => null); // the service may be away for a while
  if (!answer?.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  table.innerHTML = page.querySelector("#decisions").innerHTML;
}, 3000);
