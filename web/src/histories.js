// Displacement histories of a building's scatterers, a chart for each track.

import uPlot from "uplot"
import "uplot/dist/uPlot.min.css"
import { count, el } from "./dom.js"

/** Okabe and Ito's colours for lines, which colour-blind readers can tell apart, without the palest. */
const LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#7f7f7f"]

const seconds = dates => dates.map(date => Date.parse(`${date}T00:00:00Z`) / 1000)

/** The scatterers of a building with the colour of their line; empty where the document has none. */
export function scatterersOf(city, building) {
    const used = new Map()
    return (city.histories?.buildings?.[building.index] ?? []).map(one => {
        const number = used.get(one.track) ?? 0
        used.set(one.track, number + 1)
        return { ...one, number, colour: LINES[number % LINES.length] }
    })
}

const axis = { font: "11px system-ui, sans-serif", size: 40 }
const frame = width => ({
    width,
    height: 160,
    legend: { show: false },
    cursor: { y: false },
    tzDate: stamp => uPlot.tzDate(new Date(stamp * 1000), "Etc/UTC"),
    axes: [axis, axis],
})

/** The strain of a building over time with its interval as a band; null where the document has none. */
export function course(city, building, width) {
    const own = city.courses?.buildings?.[building.index]
    if (!own) return null
    const holder = el("figure", { class: "chart", role: "img",
        "aria-label": `Strain over time, ${own.value.at(-1).toFixed(1)} permille at the end` })
    const edge = { stroke: "#0072b255", width: 1, points: { show: false } }
    new uPlot({
        ...frame(width),
        series: [{}, edge, edge, { stroke: "#0072b2", width: 2, points: { show: false } }],
        bands: [{ series: [1, 2], fill: "#0072b230" }],
        scales: { y: { range: (_, least, most) => [0, 1.05 * most || 1] } },
    }, [seconds(city.courses.dates), own.high, own.low, own.value], holder)
    return holder
}

function chart(track, own, width) {
    const holder = el("figure", { class: "chart", role: "img",
        "aria-label": `Displacement over time, track ${track.name}, ${count(own.length, "scatterer")}` },
        el("figcaption", {}, track.name))
    new uPlot({
        ...frame(width),
        series: [{}, ...own.map(({ colour }) => ({ stroke: colour, width: 1.2, spanGaps: true, points: { show: false } }))],
    }, [seconds(track.epochs), ...own.map(({ mm }) => mm)], holder)
    return holder
}

/** Charts of all tracks that see the building. */
export function charts(city, scatterers, width) {
    return (city.histories?.tracks ?? [])
        .map((track, i) => [track, scatterers.filter(one => one.track === i)])
        .filter(([, own]) => own.length)
        .map(([track, own]) => chart(track, own, width))
}
