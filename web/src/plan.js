// A building on a small plan, in its own frame: which quarters may be damaged, and where its scatterers are.

import { percent, svg } from "./dom.js"
import { DARKEST, LIGHTEST, SIGNS, frameOf, likelyQuadrants, quadrantProbabilities } from "./frame.js"

const SIZE = 240
const ROOM = 34

/** The drawing; `scatterers` with `lon`, `lat` and `colour`. */
export function plan(building, scatterers) {
    const frame = frameOf(building)
    const { turn, west, east, south, north, middle: [middleX, middleY] } = frame
    const rings = frame.parts.flat()
    const points = scatterers.map(one => ({ ...one, at: frame.to([one.lon, one.lat]) }))
    // Scatterers may stand beside the footprint, which alone makes the frame.
    const ends = axis => [Math.min, Math.max].map(most => most(...[...rings.flat(), ...points.map(({ at }) => at)].map(place => place[axis])))
    const [[left, right], [bottom, top]] = [0, 1].map(ends)
    const scale = SIZE / Math.max(right - left, top - bottom, 1)
    const [width, height] = [(right - left) * scale + 2 * ROOM + 40, (top - bottom) * scale + 2 * ROOM]
    const x = value => ROOM + 20 + (value - left) * scale
    const y = value => ROOM + (top - value) * scale
    const path = rings.map(ring => `M${ring.map(place => `${x(place[0]).toFixed(1)} ${y(place[1]).toFixed(1)}`).join("L")}Z`)
    const likely = likelyQuadrants(building), named = likely.map(([name]) => name)
    const probabilities = quadrantProbabilities(building)
    const outline = `quadrant-clip-${building.index}`
    return svg("svg", { viewBox: `0 0 ${width.toFixed(0)} ${height.toFixed(0)}`, role: "img", class: "plan",
        "aria-label": named.length ? `Plan: damaged in ${named.join(" or ")}` : "Plan of the footprint" },
        svg("clipPath", { id: outline }, svg("path", { d: path.join(""), "clip-rule": "evenodd" })),
        svg("path", { d: path.join(""), fill: "#ecece8", stroke: "#333", "stroke-width": 2, "fill-rule": "evenodd" }),
        likely.map(([name, p]) => svg("rect", {
            x: x(SIGNS[name][0] > 0 ? middleX : west), y: y(SIGNS[name][1] > 0 ? north : middleY),
            width: ((east - west) / 2) * scale, height: ((north - south) / 2) * scale,
            fill: "#000", "fill-opacity": (LIGHTEST + (DARKEST - LIGHTEST) * p).toFixed(2), "clip-path": `url(#${outline})` })),
        svg("path", { d: `M${x(middleX)} ${y(north)}V${y(south)}M${x(west)} ${y(middleY)}H${x(east)}`,
            stroke: "#777", "stroke-dasharray": "5 4" }),
        points.map(({ at, colour }) => svg("circle", { cx: x(at[0]).toFixed(1), cy: y(at[1]).toFixed(1), r: 4.5,
            fill: colour, stroke: "#fff", "stroke-width": 1.5 })),
        probabilities && Object.entries(SIGNS).map(([name, [toEast, toNorth]]) => svg("text", {
            x: toEast > 0 ? width - 4 : 4, y: toNorth > 0 ? ROOM - 14 : height - 10, class: "quadrant",
            "text-anchor": toEast > 0 ? "end" : "start", "font-weight": named.includes(name) ? "bold" : "normal" },
            `${name} ${percent(probabilities[name])}`)),
        north_arrow(turn, width / 2))
}

/** An arrow to true north, which the frame is turned from. */
const north_arrow = (turn, x) => svg("g", { transform: `translate(${x.toFixed(0)} 16) rotate(${turn})` },
    svg("title", {}, "North"), svg("path", { d: "M0 12V-4", stroke: "#333", "stroke-width": 2 }),
    svg("path", { d: "M-5 -2L0 -13L5 -2Z", fill: "#333" }))
