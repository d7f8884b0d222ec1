// The page of a report: puts what its script draws where the page has a place for it, at the width that there is.

import { createTimeline } from "../../../widget/page/timeline.js";
import { createCard } from "./card.js";
import { createFlame } from "./flame.js";
import { createOwners } from "./owners.js";
import { createSegments } from "./segments.js";
import { createTree } from "./tree.js";

const RUN = { title: "Bytes allocated after each allocation and free, by category; move over it, or use the slider", label: "instant of the run" };

function start(data) {
  const { timeline } = data;
  const names = Object.keys(timeline.columns);
  const numberOf = (name) => names.indexOf(name) + 1;
  const put = (name, element) => document.getElementById(`${name}-here`)?.replaceChildren(element);
  const owners = createOwners(timeline);
  const run = createTimeline("run", { ...RUN, onMove: owners.draw });
  run.element.append(owners.element);
  const card = createCard(data.card, numberOf, timeline.colours);
  const map = data.map && createSegments(data.map, names, timeline.colours);
  put("card", card.element);
  put("timeline", run.element);
  put("flame", createFlame(data.flames, timeline.colours));
  put("tree", createTree(data, numberOf, timeline.colours));
  if (map) put("map", map.element);
  function draw(width) {
    run.draw(width, { stages: [] }, timeline);
    card.draw(width);
    map?.draw(width);
  }
  const here = document.getElementById("card-here");
  draw(Math.max(here.clientWidth, 200));
  new ResizeObserver(([{ contentRect }]) => draw(Math.max(contentRect.width, 200))).observe(here);
}

const data = document.getElementById("data");
if (data) start(JSON.parse(data.textContent));
