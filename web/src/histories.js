// Displacement histories: a chart for each track, with the trend, and the value and the date under the pointer.

import uPlot from "uplot"
import "uplot/dist/uPlot.min.css"
import { UNKNOWN } from "./colours.js"
import { count, el, permille, signed } from "./dom.js"

/** Okabe and Ito's colours for lines, which colour-blind readers can tell apart, without the palest, and Tol's wine. */
const LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#882255"]
const SECONDS_A_YEAR = 365.25 * 86400
const DEGREES_A_METRE = 1 / 111320

const seconds = dates => dates.map(date => Date.parse(`${date}T00:00:00Z`) / 1000)

/**
 * The scatterers of a building with the colour of their line. Those beside it, which are assigned to another building or
 * to none, are grey and have `isBeside`. Without histories: the drawn points on or beside it.
 */
export function scatterersOf(city, building) {
    const seriesOfBuilding = kind => (city.histories?.[kind]?.[building.index] ?? []).map(number => city.histories.series[number])
    const used = new Map()
    const coloured = seriesOfBuilding("buildings").map(series => {
        const before = used.get(series.track) ?? 0
        used.set(series.track, before + 1)
        return { ...series, colour: LINES[before % LINES.length] }
    })
    const grey = seriesOfBuilding("beside").map(series => ({ ...series, colour: UNKNOWN, isBeside: true }))
    return coloured.length || grey.length ? [...coloured, ...grey] : dotsBeside(city, building)
}

function dotsBeside(city, building) {
    const places = building.geometry.coordinates.flat(building.geometry.type === "Polygon" ? 1 : 2)
    const reach = (city.histories?.reach_m ?? 0) * DEGREES_A_METRE
    const wide = reach / Math.cos((building.centre[1] * Math.PI) / 180)
    const ends = (axis, by) => [Math.min(...places.map(at => at[axis])) - by, Math.max(...places.map(at => at[axis])) + by]
    const [[west, east], [south, north]] = [ends(0, wide), ends(1, reach)]
    return city.points.flatMap(({ lon, lat }) => lon.flatMap((x, i) =>
        x >= west && x <= east && lat[i] >= south && lat[i] <= north ? [{ lon: x, lat: lat[i], colour: UNKNOWN }] : []))
}

/** The history of a drawn point; undefined where the document has none. */
export const seriesOf = (city, track, dot) => city.histories?.series?.find(one => one.track === track && one.dot === dot)

/** The colour of a line of one point alone. */
export const alone = series => ({ ...series, colour: LINES[0] })

const axis = { font: "11px system-ui, sans-serif", size: 40 }
const frame = width => ({
    width,
    height: 160,
    legend: { show: false },
    cursor: { y: false, points: { size: 7 } },
    tzDate: stamp => uPlot.tzDate(new Date(stamp * 1000), "Etc/UTC"),
    axes: [axis, axis],
})

/** Write into `node` what `text(idx, plot)` says of the epoch under the pointer. */
const readout = (node, text) => ({
    setCursor: [plot => (node.textContent = Number.isInteger(plot.cursor.idx) ? text(plot.cursor.idx, plot) : "")],
})
/** As high as its text, so that nothing moves when it is filled. */
const told = () => el("p", { class: "told" })

/** The strain of a building over time with its interval as a band; null where the document has none. */
export function course(city, building, width) {
    const own = city.courses?.buildings?.[building.index]
    if (!own) return null
    const strain = value => permille(value, city.permille)
    const node = told()
    const holder = el("figure", { class: "chart", role: "img",
        "aria-label": `Strain over time, ${strain(own.value.at(-1))} permille at the end` })
    const edge = { stroke: "#0072b255", width: 1, points: { show: false } }
    const said = i => `${city.courses.dates[i]}: ${strain(own.value[i])} (${strain(own.low[i])} to ${strain(own.high[i])}) permille`
    new uPlot({
        ...frame(width),
        hooks: readout(node, said),
        series: [{}, edge, edge, { stroke: "#0072b2", width: 2, points: { show: false } }],
        bands: [{ series: [1, 2], fill: "#0072b230" }],
        scales: { y: { range: (_, least, most) => [0, 1.05 * most || 1] } },
    }, [seconds(city.courses.dates), own.high, own.low, own.value], holder)
    holder.append(node)
    return holder
}

/** Least-squares line of a history: its value at `times` and its slope, mm a year; null with fewer than two values. */
function trend(times, mm) {
    const known = mm.flatMap((value, i) => (value === null ? [] : [[times[i], value]]))
    const mean = axis => known.reduce((sum, one) => sum + one[axis], 0) / known.length
    const [middle, level] = [mean(0), mean(1)]
    const spread = known.reduce((sum, [t]) => sum + (t - middle) ** 2, 0)
    if (!spread) return null
    const slope = known.reduce((sum, [t, value]) => sum + (t - middle) * (value - level), 0) / spread
    return { line: times.map(t => level + slope * (t - middle)), rate: slope * SECONDS_A_YEAR }
}

/** The line nearest to the pointer. */
const nearest = (plot, i, own) => own
    .map(one => [one, Math.abs(plot.valToPos(one.mm[i], "y") - plot.cursor.top)])
    .filter(([one]) => one.mm[i] !== null)
    .sort((a, b) => a[1] - b[1])[0]?.[0]

/** The chart of the scatterers of a track; dashed: the mean of their trends, without those beside the building. */
export function chart(track, own, width) {
    const times = seconds(track.epochs)
    const ofBuilding = own.filter(series => !series.isBeside)
    const trends = ofBuilding.map(({ mm }) => trend(times, mm)).filter(found => found !== null)
    const mean = of => trends.reduce((sum, one) => sum + of(one), 0) / trends.length
    const beside = own.length > ofBuilding.length ? "; grey: not assigned to this building" : ""
    const rate = trends.length ? `: ${signed(mean(one => one.rate))} mm a year (dashed)` : ""
    const node = told()
    const holder = el("figure", { class: "chart", role: "img",
        "aria-label": `Displacement over time, track ${track.name}, ${count(ofBuilding.length, "scatterer")}${rate}${beside}` },
        el("figcaption", {}, `${track.name}${rate}${beside}`))
    const line = trends.length ? times.map((_, i) => mean(one => one.line[i])) : times.map(() => null)
    const said = (i, plot) => {
        const one = nearest(plot, i, own)
        if (!one) return `${track.epochs[i]}: missing`
        return `${track.epochs[i]}: ${signed(one.mm[i])} mm, ${one.id}${one.isBeside ? ", not assigned to this building" : ""}`
    }
    new uPlot({
        ...frame(width),
        hooks: readout(node, said),
        series: [{}, ...own.map(({ colour }) => ({ stroke: colour, width: 1.2, spanGaps: true, points: { show: false } })),
            { stroke: "#000", width: 1.6, dash: [6, 4], points: { show: false } }],
    }, [times, ...own.map(({ mm }) => mm), line], holder)
    holder.append(node)
    return holder
}

/** Charts of all tracks that see the building. */
export function charts(city, scatterers, width) {
    return (city.histories?.tracks ?? [])
        .map((track, i) => [track, scatterers.filter(one => one.mm && one.track === i)])
        .filter(([, own]) => own.length)
        .map(([track, own]) => chart(track, own, width))
}

/** The histories as CSV, one value a row; without those of scatterers beside the building. */
export function historiesCsv(city, own, cell) {
    const rows = own.filter(one => one.mm && !one.isBeside).flatMap(one => one.mm.map((value, i) =>
        [one.id, city.histories.tracks[one.track].name, one.lon, one.lat, city.histories.tracks[one.track].epochs[i], value]))
    return [["point_id", "track", "longitude", "latitude", "date", "displacement_mm"], ...rows]
        .map(row => row.map(cell).join(",")).join("\n") + "\n"
}
