// Colours and hatchings. All sequences go from light to dark, so that colour-blind readers and grey print keep the order.

/** Burland categories 0 to 4: ColorBrewer's YlOrRd in five classes, which is safe for colour-blind readers. */
export const CATEGORY = ["#ffffb2", "#fecc5c", "#fd8d3c", "#f03b20", "#bd0026"]

/** Probability of damage, in steps of 20 %, from almost white to dark: ColorBrewer's BuPu, safe for colour-blind readers. */
export const PROBABILITY = ["#edf8fb", "#b3cde3", "#8c96c6", "#8856a7", "#810f7c"]

/** Velocity from away from the satellite (purple) to towards it (green): ColorBrewer's diverging PRGn. */
export const VELOCITY = ["#762a83", "#9970ab", "#c2a5cf", "#f0f0f0", "#a6dba0", "#5aae61", "#1b7837"]

/** Columns that buildings can also be coloured by, whether judged or not. */
export const MEASURES = {
    settlement_mm: { label: "Settlement, mm", diverging: true },
    against_neighbours_mm: { label: "Against its neighbours, mm", diverging: true },
    tilt_mm_m: { label: "Tilt, mm/m" },
    severity_rate: { label: "Growth, permille a year" },
    damage_rate: { label: "Share of damage at its place" },
}

const SHOWN = 0.98

const rounded = value => Number(value.toPrecision(2))

/** The colours of a measure and the values between them; the outermost begin at 98 % of the buildings. */
export function scaleOf(buildings, name) {
    const { diverging } = MEASURES[name]
    const sizes = buildings.map(building => Math.abs(building[name])).filter(Number.isFinite).sort((a, b) => a - b)
    const most = sizes.length ? sizes[Math.floor(SHOWN * (sizes.length - 1))] || 1 : 1
    const edges = diverging ? [-5, -3, -1, 1, 3, 5].map(sixth => rounded((most * sixth) / 6)) : [1, 2, 3, 4].map(fifth => rounded((most * fifth) / 5))
    return { colours: diverging ? VELOCITY : PROBABILITY, edges }
}

export function measureColour(value, { colours, edges }) {
    return Number.isFinite(value) ? colours[edges.filter(edge => value >= edge).length] : UNKNOWN
}


export const UNKNOWN = "#8a8a8a"
export const OUTLINE = "#6b5a3a"
export const CHOSEN = "#0050b3"
/** Causes of damage that count; the others are of `UNKNOWN`. */
export const CAUSE = "#007d8a"
/** Edge of levelled points whose building differs from the radar. */
export const DIFFERS = "#d7191c"

/** Direction and colour of the hatching of each group of reasons for abstaining. */
export const HATCH = {
    unsure: { lines: "\\", colour: "#d95f0e" },
    points: { lines: "/", colour: UNKNOWN },
    size: { lines: "-", colour: UNKNOWN },
    unlike: { lines: "x", colour: UNKNOWN },
}

export const probabilityStep = p => Math.min(4, Math.floor(5 * p))

export const buildingColour = (building, by) =>
    by === "category" ? CATEGORY[building.burland_category] : PROBABILITY[probabilityStep(building.p_damaged)]

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

/** The hatching as pixels for MapLibre, which repeats it. */
export function hatchPixels({ lines, colour }) {
    const canvas = document.createElement("canvas")
    canvas.width = canvas.height = SIZE
    const context = canvas.getContext("2d")
    context.fillStyle = "#fff"
    context.fillRect(0, 0, SIZE, SIZE)
    context.strokeStyle = colour
    context.lineWidth = 2
    context.beginPath()
    drawLines(context, lines)
    context.stroke()
    return context.getImageData(0, 0, SIZE, SIZE)
}

/** The same as a background for the legend. */
export function hatchBackground({ lines, colour }) {
    const stripes = angle => `repeating-linear-gradient(${angle}deg, ${colour} 0 2px, transparent 2px 6px)`
    const angles = { "/": [135], "\\": [45], "-": [0], x: [45, 135] }[lines]
    return `background: ${angles.map(stripes).join(", ")}, #fff`
}
