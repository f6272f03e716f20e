// Colours and hatchings. All sequences go from light to dark, so that colour-blind readers and grey print keep the order.

import { NINETY } from "./dom.js"

/** Burland categories 0 to 4: ColorBrewer's YlOrRd in five classes, which is safe for colour-blind readers. */
export const CATEGORY = ["#ffffb2", "#fecc5c", "#fd8d3c", "#f03b20", "#bd0026"]

/** Share of flagged buildings in a hexagon: YlOrRd in six classes. */
export const SHARE = ["#ffffb2", "#fed976", "#feb24c", "#fd8d3c", "#f03b20", "#bd0026"]

/** Velocity from away from the satellite (purple) to towards it (green): ColorBrewer's diverging PRGn. */
export const VELOCITY = ["#762a83", "#9970ab", "#c2a5cf", "#f0f0f0", "#a6dba0", "#5aae61", "#1b7837"]

/** The same in eight colours, four on either side of 0: down (purple) and up (green). */
const DIVERGING = ["#762a83", "#9970ab", "#c2a5cf", "#e7d4e8", "#d9f0d3", "#a6dba0", "#5aae61", "#1b7837"]
const SEQUENTIAL = ["#edf8fb", "#b3cde3", "#8c96c6", "#8856a7", "#810f7c"]

/** What buildings are coloured by first: in a quiet city, all are of one category. */
export const DEFAULT_COLOURS = "p_damaged"

/** Columns that buildings can also be coloured by, whether judged or not; `std`: column of the standard error, `low`: of the lower end
 * of the 90 % interval. */
export const MEASURES = {
    settlement_mm: { label: "Settlement, mm", diverging: true, std: "settlement_std_mm" },
    against_neighbours_mm: { label: "Against its neighbours, mm", diverging: true, std: "against_neighbours_std_mm" },
    tilt_mm_m: { label: "Tilt, mm/m", std: "tilt_std_mm_m" },
    severity_rate: { label: "Growth, permille a year", low: "severity_rate_low" },
    damage_rate: { label: "Share of damage at its place" },
}

/** Shares of the buildings below the values between two colours; diverging ones are of the sizes, on either side of 0. The last class
 * holds the largest values alone, however large they are. */
const SEQUENTIAL_SHARES = [0.25, 0.5, 0.75, 0.95]
const DIVERGING_SHARES = [0.3, 0.6, 0.9]

/** An edge may stand this share of the values beside its quantile, to be a round number. */
const SLACK = 0.05

/** Values that split the sorted ones at about these shares, with few digits. Equal values stay together, so that there may be fewer. */
function quantileEdges(sorted, shares) {
    const edges = shares.flatMap(share => {
        const i = sorted.findIndex((value, k) => k >= share * sorted.length && k > 0 && value > sorted[k - 1])
        return i < 0 ? [] : [roundEdge(sorted, i)]
    })
    return [...new Set(edges)]
}

/** A value between the sorted ones `i - 1` and `i`, or nearly there: with as few digits as that takes, two at least. */
function roundEdge(sorted, i) {
    const middle = (sorted[i - 1] + sorted[i]) / 2
    for (let digits = 2; digits <= 15; digits++) {
        const edge = Number(middle.toPrecision(digits))
        const below = sorted.filter(value => value < edge).length
        if (below > 0 && below < sorted.length && Math.abs(below - i) <= SLACK * sorted.length) return edge
    }
    return sorted[i]
}

/** So many of the colours, evenly spread from the first to the last. */
const spread = (colours, count) => Array.from({ length: count }, (_, i) => colours[Math.round((i * (colours.length - 1)) / Math.max(count - 1, 1))])

const scales = new WeakMap()

/** The colours of a measure and the values between them, by quantiles of the city; those of a measure with a sign mirror at 0. */
export function scaleOf(buildings, name) {
    if (!scales.has(buildings)) scales.set(buildings, {})
    return (scales.get(buildings)[name] ??= makeScale(buildings, name))
}

function makeScale(buildings, name) {
    const { diverging } = MEASURES[name]
    const values = buildings.map(building => building[name]).filter(Number.isFinite)
    const sorted = (diverging ? values.map(Math.abs) : values).sort((a, b) => a - b)
    const edges = quantileEdges(sorted, diverging ? DIVERGING_SHARES : SEQUENTIAL_SHARES)
    if (!diverging) return { colours: spread(SEQUENTIAL, edges.length + 1), edges }
    const up = spread(DIVERGING.slice(4).reverse(), edges.length + 1).reverse()
    const down = spread(DIVERGING.slice(0, 4), edges.length + 1)
    return { colours: [...down, ...up], edges: [...edges.map(edge => -edge).reverse(), 0, ...edges] }
}

export const measureStep = (value, { edges }) => edges.filter(edge => value >= edge).length

export const measureColour = (value, scale) => (Number.isFinite(value) ? scale.colours[measureStep(value, scale)] : UNKNOWN)

/** Whether the 90 % interval of a measure of a building holds 0: it is drawn faint. */
export function holdsZero(building, name) {
    const { std, low } = MEASURES[name]
    if (!Number.isFinite(building[name])) return false
    if (low) return building[low] <= 0
    return std !== undefined && Math.abs(building[name]) <= NINETY * building[std]
}

/** Opacity of what is drawn faint. */
export const FAINT = 0.3

export const UNKNOWN = "#8a8a8a"
export const OUTLINE = "#6b5a3a"
export const CHOSEN = "#0050b3"
/** Causes of damage that count; the others are of `UNKNOWN`. */
export const CAUSE = "#007d8a"
/** Edge of levelled points whose building differs from the radar. */
export const DIFFERS = "#d7191c"

/** Footprints without the figure that colours stand for. */
export const WHITE = "#ffffff"

/** Direction and colour of the hatching of each group of reasons for abstaining. */
export const HATCH = {
    unsure: { lines: "\\", colour: "#d95f0e" },
    points: { lines: "/", colour: UNKNOWN },
    size: { lines: "-", colour: UNKNOWN },
    unlike: { lines: "x", colour: UNKNOWN },
}

/** The colour of a building by `category` or `p_damaged`, of these classes; white where that is not known. */
export function buildingColour(building, by, classes) {
    if (by === "category") return CATEGORY[building.burland_category] ?? WHITE
    return building.probability === null ? WHITE : measureColour(building.probability, classes)
}

const SIZE = 16

function drawLines(context, lines) {
    const parts = {
        "/": [[-1, 17, 17, -1], [-1, 9, 9, -1], [7, 17, 17, 7]],
        "\\": [[-1, -1, 17, 17], [-1, 7, 9, 17], [7, -1, 17, 9]],
        "-": [[0, 4, 16, 4], [0, 12, 16, 12]],
    }
    for (const [x, y, toX, toY] of lines === "x" ? [...parts["/"], ...parts["\\"]] : parts[lines]) {
        context.moveTo(x, y)
        context.lineTo(toX, toY)
    }
}

/** The hatching as pixels for MapLibre, which repeats it; between its lines the colour below is seen. */
export function hatchPixels({ lines, colour }) {
    const canvas = document.createElement("canvas")
    canvas.width = canvas.height = SIZE
    const context = canvas.getContext("2d")
    context.strokeStyle = colour
    context.lineWidth = 2
    context.beginPath()
    drawLines(context, lines)
    context.stroke()
    return context.getImageData(0, 0, SIZE, SIZE)
}

/** The same as a background for legend and list, over a colour. */
export function hatchBackground({ lines, colour }, below = WHITE) {
    const stripes = angle => `repeating-linear-gradient(${angle}deg, ${colour} 0 2px, transparent 2px 6px)`
    const angles = { "/": [135], "\\": [45], "-": [0], x: [45, 135] }[lines]
    return `background: ${angles.map(stripes).join(", ")}, ${below}`
}
