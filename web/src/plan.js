// A building on a small plan, in its own frame: which quarter is damaged, and where its scatterers are.

import { svg } from "./dom.js"

const SIZE = 240
const ROOM = 34
const METRES_A_DEGREE = 111320
const SIGNS = { NE: [1, 1], NW: [-1, 1], SW: [-1, -1], SE: [1, -1] }

const ringsOf = ({ type, coordinates }) => (type === "Polygon" ? coordinates : coordinates.flat())

/** Metres east and north of `origin`, turned by `degrees` clockwise: into a frame that lies that much to the left. */
function toFrame([lon, lat], origin, degrees) {
    const east = (lon - origin[0]) * METRES_A_DEGREE * Math.cos((origin[1] * Math.PI) / 180)
    const north = (lat - origin[1]) * METRES_A_DEGREE
    const [cos, sin] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)]
    return [east * cos + north * sin, north * cos - east * sin]
}

/** The drawing; `scatterers` with `lon`, `lat` and `colour`. */
export function plan(building, scatterers) {
    const turn = building.frame_deg ?? 0
    const rings = ringsOf(building.geometry).map(ring => ring.map(place => toFrame(place, building.centre, turn)))
    const points = scatterers.map(one => ({ ...one, at: toFrame([one.lon, one.lat], building.centre, turn) }))
    const ends = (places, axis) => [Math.min, Math.max].map(most => most(...places.map(place => place[axis])))
    const [[west, east], [south, north]] = [0, 1].map(axis => ends(rings.flat(), axis))
    // Scatterers may stand beside the footprint, which alone makes the frame.
    const [[left, right], [bottom, top]] = [0, 1].map(axis => ends([...rings.flat(), ...points.map(({ at }) => at)], axis))
    const scale = SIZE / Math.max(right - left, top - bottom, 1)
    const [width, height] = [(right - left) * scale + 2 * ROOM + 40, (top - bottom) * scale + 2 * ROOM]
    const x = value => ROOM + 20 + (value - left) * scale
    const y = value => ROOM + (top - value) * scale
    const [middleX, middleY] = [(west + east) / 2, (south + north) / 2]
    const path = rings.map(ring => `M${ring.map(place => `${x(place[0]).toFixed(1)} ${y(place[1]).toFixed(1)}`).join("L")}Z`)
    const damaged = building.judged && building.burland_category >= 1 ? building.quadrant : null
    const outline = `quadrant-clip-${building.index}`
    return svg("svg", { viewBox: `0 0 ${width.toFixed(0)} ${height.toFixed(0)}`, role: "img", class: "plan",
        "aria-label": damaged ? `Plan: the quarter ${damaged} is damaged` : "Plan of the footprint" },
        svg("clipPath", { id: outline }, svg("path", { d: path.join(""), "clip-rule": "evenodd" })),
        svg("path", { d: path.join(""), fill: "#ecece8", stroke: "#333", "stroke-width": 2, "fill-rule": "evenodd" }),
        damaged && svg("rect", {
            x: x(SIGNS[damaged][0] > 0 ? middleX : west), y: y(SIGNS[damaged][1] > 0 ? north : middleY),
            width: ((east - west) / 2) * scale, height: ((north - south) / 2) * scale,
            fill: "#000", "fill-opacity": 0.55, "clip-path": `url(#${outline})` }),
        svg("path", { d: `M${x(middleX)} ${y(north)}V${y(south)}M${x(west)} ${y(middleY)}H${x(east)}`,
            stroke: "#777", "stroke-dasharray": "5 4" }),
        points.map(({ at, colour }) => svg("circle", { cx: x(at[0]).toFixed(1), cy: y(at[1]).toFixed(1), r: 4.5,
            fill: colour, stroke: "#fff", "stroke-width": 1.5 })),
        building.judged && Object.entries(SIGNS).map(([name, [toEast, toNorth]]) => svg("text", {
            x: toEast > 0 ? width - 4 : 4, y: toNorth > 0 ? ROOM - 14 : height - 10, class: "quadrant",
            "text-anchor": toEast > 0 ? "end" : "start", "font-weight": name === damaged ? "bold" : "normal" },
            `${name} ${(building[`p_${name.toLowerCase()}`] ?? 0).toFixed(2)}`)),
        north_arrow(turn, width / 2))
}

/** An arrow to true north, which the frame is turned from. */
const north_arrow = (turn, x) => svg("g", { transform: `translate(${x.toFixed(0)} 16) rotate(${turn})` },
    svg("title", {}, "North"), svg("path", { d: "M0 12V-4", stroke: "#333", "stroke-width": 2 }),
    svg("path", { d: "M-5 -2L0 -13L5 -2Z", fill: "#333" }))
