// Small things that every part of the page uses.

export const byId = (id) => document.getElementById(id);

export function element(tag, classes = "", text = "") {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text) made.textContent = text;
  return made;
}

export function option(select, value, text) {
  const made = element("option", "", text);
  made.value = value;
  select.append(made);
}

export function percent(share) { return `${(100 * share).toFixed(1)} %`; }

export function say(place, message) {
  place.textContent = message ?? "";
  place.hidden = !message;
}

// A bar for each label, in the labels' own order; the bars stay where they are while one types.
export function drawBars(place, prediction, labels) {
  if (place.dataset.labels !== JSON.stringify(labels)) {
    place.replaceChildren();
    for (const label of labels) {
      const track = element("div", "track");
      track.append(element("div", "fill"));
      const name = element("div", "name", label);
      name.title = label;
      place.append(name, track, element("div", "share"));
    }
    place.dataset.labels = JSON.stringify(labels);
  }
  labels.forEach((label, number) => {
    const [name, track, share] = [0, 1, 2].map((part) => place.children[3 * number + part]);
    const value = prediction.probabilities?.[label];
    for (const part of [name, track, share]) part.classList.toggle("best", label === prediction.label);
    track.firstChild.style.width = `${100 * (value ?? 0)}%`;
    share.textContent = value === undefined ? "–" : percent(value);
  });
}
