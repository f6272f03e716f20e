// A building's own frame: its rectangle, turned to its sides, and the four quarters of it.

const METRES_A_DEGREE = 111320
const LEAST_M2 = 0.01
export const SIGNS = { NE: [1, 1], NW: [-1, 1], SW: [-1, -1], SE: [1, -1] }

const partsOf = ({ type, coordinates }) => (type === "Polygon" ? [coordinates] : coordinates)
const turned = ([x, y], degrees) => {
    const [cos, sin] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)]
    return [x * cos + y * sin, y * cos - x * sin]
}

/** The frame; `to` and `back` change longitude and latitude to metres along its sides, and back. */
export function frameOf(building) {
    const turn = building.frame_deg ?? 0
    const [lon, lat] = building.centre
    const wide = METRES_A_DEGREE * Math.cos((lat * Math.PI) / 180)
    const to = ([east, north]) => turned([(east - lon) * wide, (north - lat) * METRES_A_DEGREE], turn)
    const back = place => {
        const [east, north] = turned(place, -turn)
        return [lon + east / wide, lat + north / METRES_A_DEGREE]
    }
    const parts = partsOf(building.geometry).map(part => part.map(ring => ring.map(to)))
    const [x, y] = [0, 1].map(axis => parts.flat(2).map(place => place[axis]))
    const [west, east, south, north] = [Math.min(...x), Math.max(...x), Math.min(...y), Math.max(...y)]
    return { turn, to, back, parts, west, east, south, north, middle: [(west + east) / 2, (south + north) / 2] }
}

/** What of a ring lies on one side of `at` along an axis (Sutherland and Hodgman 1974). */
function half(ring, axis, sign, at) {
    const inside = place => sign * (place[axis] - at) >= 0
    return ring.flatMap((place, i) => {
        const before = ring.at(i - 1)
        const share = (at - before[axis]) / (place[axis] - before[axis])
        const crossing = inside(place) !== inside(before)
            ? [[0, 1].map(k => (k === axis ? at : before[k] + share * (place[k] - before[k])))] : []
        return inside(place) ? [...crossing, place] : crossing
    })
}

/** Corners of the quarter of the rectangle. */
const wholeQuarter = ({ west, east, south, north, middle: [x, y] }, [toEast, toNorth]) => {
    const [farX, farY] = [toEast > 0 ? east : west, toNorth > 0 ? north : south]
    return [[x, y], [farX, y], [farX, farY], [x, farY], [x, y]]
}

const areaOf = ring => Math.abs(ring.reduce((sum, [x, y], i) => sum + ring.at(i - 1)[0] * y - x * ring.at(i - 1)[1], 0)) / 2

/** The part of the footprint in a quadrant, as polygons in longitude and latitude; the whole quarter if there is none. */
function quarter(frame, signs) {
    const [x, y] = frame.middle
    const cut = ring => {
        const own = half(half(ring.slice(0, -1), 0, signs[0], x), 1, signs[1], y)
        return [...own, ...own.slice(0, 1)]
    }
    const parts = frame.parts.map(part => part.map(cut).filter(ring => areaOf(ring) > LEAST_M2)).filter(part => part.length)
    return (parts.length ? parts : [[wholeQuarter(frame, signs)]]).map(part => part.map(ring => ring.map(frame.back)))
}

/** The probability of each quadrant by its name, also of a flagged building that is not judged; null where none is shown. */
export function quadrantProbabilities(building) {
    const values = Object.keys(SIGNS).map(name => [name, building[`p_${name.toLowerCase()}`]])
    return building.flagged && values.every(([, p]) => Number.isFinite(p)) ? Object.fromEntries(values) : null
}

/** Names of the quadrants that hold most of the probability, of a flagged building whose points show where it is damaged. */
export const shownQuadrants = building => (building.judged && building.flagged ? building.quadrants.split("|") : [])

/** The same, each with its probability. */
export function likelyQuadrants(building) {
    const probabilities = quadrantProbabilities(building)
    return shownQuadrants(building).map(name => [name, probabilities[name]])
}

/** How dark a quadrant is: the more probable it is, the darker. */
export const LIGHTEST = 0.08
export const DARKEST = 0.8

/** GeoJSON features of the quarters of a building, each with its probability `q`. */
export function quarterFeatures(building) {
    const likely = likelyQuadrants(building)
    if (!likely.length) return []
    const frame = frameOf(building)
    return likely.map(([name, q]) => ({ type: "Feature", id: building.index, properties: { q, name },
        geometry: { type: "MultiPolygon", coordinates: quarter(frame, SIGNS[name]) } }))
}
