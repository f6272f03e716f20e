// Sources and layers of the map, from the ground up.

import { CATEGORY, CAUSE, CHOSEN, DEFAULT_COLOURS, DIFFERS, FAINT, HATCH, MEASURES, OUTLINE, SHARE, UNKNOWN, VELOCITY, WHITE, hatchPixels, holdsZero } from "./colours.js"
import { DARKEST, LIGHTEST } from "./frame.js"
import { shareEdges } from "./hexagons.js"

/** `OUTLINE`, mostly transparent. */
const FAINT_OUTLINE = `${OUTLINE}40`

export const EMPTY = { type: "FeatureCollection", features: [] }

const steps = (value, colours, bounds) => ["step", value, colours[0], ...bounds.flatMap((at, i) => [at, colours[i + 1]])]

/** Fill by `category` or `p_damaged`, of these classes. */
export const damageFill = (by, { colours, edges }) => (by === "category"
    ? ["match", ["get", "k"], ...CATEGORY.flatMap((colour, code) => [code, colour]), WHITE]
    : ["case", ["<", ["get", "p"], 0], WHITE, steps(["get", "p"], colours, edges)])

export const measureFill = ({ colours, edges }) => ["case", ["has", "m"], steps(["get", "m"], colours, edges), UNKNOWN]

/** What the map needs of a building: the rest stays in the page, so that little is copied to MapLibre's worker. */
export function footprints(buildings, by) {
    const features = buildings.map(building => ({
        type: "Feature",
        id: building.index,
        geometry: building.geometry,
        properties: { k: building.burland_category ?? -1, p: building.probability ?? -1, g: building.reason_group ?? "",
            ...(MEASURES[by] && Number.isFinite(building[by]) && { m: building[by], ...(holdsZero(building, by) && { faint: true }) }) },
    }))
    return { type: "FeatureCollection", features }
}

export function pointFeatures(points) {
    const features = points.flatMap(({ lon, lat, velocity }, track) => lon.map((east, i) => ({
        type: "Feature",
        geometry: { type: "Point", coordinates: [east, lat[i]] },
        properties: { track, dot: i, ...(velocity[i] !== null && { v: velocity[i] }) },
    })))
    return { type: "FeatureCollection", features }
}

export function baseStyle(basemap, attribution) {
    const style = {
        version: 8,
        sources: {},
        layers: [{ id: "background", type: "background", paint: { "background-color": "#f0f0ee" } }],
    }
    if (basemap) {
        style.sources.basemap = { type: "raster", tiles: [basemap], tileSize: 256, attribution: attribution ?? "" }
        style.layers.push({ id: "basemap", type: "raster", source: "basemap" })
    }
    return style
}

export const HEXAGONS = ["hexagons", "hexagon-edges", "hexagon-texts"]

function addHexagons(map, city) {
    map.addSource("hexagons", { type: "geojson", data: EMPTY, buffer: 8 })
    map.addSource("middles", { type: "geojson", data: EMPTY })
    const colour = ["case", ["<", ["get", "share"], 0], "#dcdcdc", steps(["get", "share"], SHARE, shareEdges(city.buildings))]
    const common = { source: "hexagons" }
    map.addLayer({ id: "hexagons", type: "fill", ...common, paint: { "fill-color": colour, "fill-opacity": 0.85 } })
    map.addLayer({ id: "hexagon-edges", type: "line", ...common, paint: { "line-color": "#fff", "line-width": 1.5 } })
    map.addLayer({
        id: "hexagon-texts",
        type: "symbol",
        source: "middles",
        // Without an address of glyphs MapLibre draws letters of the machine's own fonts.
        layout: { "text-field": ["get", "text"], "text-font": ["sans-serif"], "text-size": 12, "text-line-height": 1.1 },
        paint: { "text-color": "#1c1c1c", "text-halo-color": "#fff", "text-halo-width": 1.5 },
    })
}

function addBuildings(map, city, near) {
    // Tiles of zoom 16 have cells of 10 cm: deeper ones would cost memory and show nothing more.
    const source = { type: "geojson", data: EMPTY, maxzoom: 16, buffer: 16, tolerance: 0.2 }
    map.addSource("buildings", source)
    map.addSource("quarters", source)
    const common = { source: "buildings", minzoom: near }
    map.addLayer({
        id: "footprints", type: "fill", ...common,
        paint: { "fill-color": damageFill(DEFAULT_COLOURS, city.probability_classes), "fill-antialias": false, "fill-opacity": ["case", ["has", "faint"], FAINT, 1] },
    })
    for (const [group, hatch] of Object.entries(HATCH)) {
        map.addImage(`hatch-${group}`, hatchPixels(hatch), { pixelRatio: 2 })
        map.addLayer({
            id: `abstained-${group}`, type: "fill", ...common, filter: ["==", ["get", "g"], group],
            paint: { "fill-pattern": `hatch-${group}`, "fill-antialias": false },
        })
    }
    const width = ["interpolate", ["linear"], ["zoom"], near, 0.5, near + 3, 1.2]
    map.addLayer({ id: "edges", type: "line", ...common, paint: { "line-color": ["case", ["has", "faint"], FAINT_OUTLINE, OUTLINE], "line-width": width } })
    const quarter = { source: "quarters", minzoom: near }
    map.addLayer({ id: "quarters", type: "fill", ...quarter, paint: { "fill-color": "#000",
        "fill-opacity": ["interpolate", ["linear"], ["get", "q"], 0, LIGHTEST, 1, DARKEST] } })
    // A white edge: quarters are seen on the darkest colours, too.
    map.addLayer({
        id: "quarter-edges", type: "line", ...quarter, minzoom: near + 1,
        paint: { "line-color": "#fff", "line-width": 1 },
    })
    map.addSource("chosen", { type: "geojson", data: EMPTY, maxzoom: 18 })
    map.addLayer({ id: "chosen", type: "line", source: "chosen", paint: { "line-color": CHOSEN, "line-width": 4 } })
    map.addLayer({ id: "chosen-point", type: "circle", source: "chosen", filter: ["==", ["geometry-type"], "Point"],
        paint: { "circle-opacity": 0, "circle-radius": 8, "circle-stroke-color": CHOSEN, "circle-stroke-width": 3 } })
}

export function addPoints(map, points, limit) {
    const bounds = [-5, -3, -1, 1, 3, 5].map(sixth => (limit * sixth) / 6)
    map.addSource("points", { type: "geojson", data: pointFeatures(points), maxzoom: 16, buffer: 8 })
    map.addLayer({
        id: "points", type: "circle", source: "points",
        paint: {
            "circle-color": ["case", ["has", "v"], steps(["get", "v"], VELOCITY, bounds), UNKNOWN],
            "circle-radius": ["interpolate", ["linear"], ["zoom"], 12, 1.5, 18, 5],
            "circle-stroke-color": "#333",
            "circle-stroke-width": ["interpolate", ["linear"], ["zoom"], 14, 0, 17, 0.7],
        },
    }, "chosen")
}

/** Moving areas in the colours of the points, each with its name and rate. */
export function addAreas(map, areas, limit) {
    const bounds = [-5, -3, -1, 1, 3, 5].map(sixth => (limit * sixth) / 6)
    const features = areas.features.map(feature => ({ ...feature, properties: { ...feature.properties,
        text: `${feature.properties.name}: ${feature.properties.rate_mm_year.toFixed(1).replace("-", "\u2212")} mm/yr` } }))
    map.addSource("areas", { type: "geojson", data: { ...EMPTY, features } })
    map.addLayer({ id: "areas", type: "fill", source: "areas",
        paint: { "fill-color": steps(["get", "rate_mm_year"], VELOCITY, bounds), "fill-opacity": 0.45 } }, "chosen")
    map.addLayer({ id: "area-edges", type: "line", source: "areas", paint: { "line-color": "#333", "line-width": 1.2 } }, "chosen")
    map.addLayer({ id: "area-texts", type: "symbol", source: "areas",
        layout: { "text-field": ["get", "text"], "text-font": ["sans-serif"], "text-size": 12 },
        paint: { "text-color": "#1c1c1c", "text-halo-color": "#fff", "text-halo-width": 1.5 } })
}

/** Layers of causes that are clicked on. */
export const CAUSES = ["causes", "cause-lines", "cause-points"]

/** Causes of damage: points, lines and polygons, each with its name. */
export function addCauses(map, causes) {
    const colour = ["case", ["get", "counts"], CAUSE, UNKNOWN]
    const is = (...kinds) => ["in", ["geometry-type"], ["literal", kinds.flatMap(kind => [kind, `Multi${kind}`])]]
    const add = (id, type, filter, paint, layout = {}) =>
        map.addLayer({ id, type, source: "causes", filter, paint, layout }, type === "symbol" ? undefined : "chosen")
    map.addSource("causes", { type: "geojson", data: causes })
    add("causes", "fill", is("Polygon"), { "fill-color": colour, "fill-opacity": 0.25 })
    add("cause-lines", "line", is("Polygon", "LineString"), { "line-color": colour, "line-width": 3.5 })
    add("cause-points", "circle", is("Point"), { "circle-color": colour, "circle-radius": 7, "circle-stroke-color": "#fff", "circle-stroke-width": 2 })
    const text = { "text-field": ["get", "name"], "text-font": ["sans-serif"], "text-size": 13 }
    const drawn = { "text-color": "#1c1c1c", "text-halo-color": "#fff", "text-halo-width": 2 }
    add("cause-names", "symbol", is("Polygon", "Point"), drawn, { ...text, "text-offset": [0, -1.4] })
    add("cause-line-names", "symbol", is("LineString"), drawn, { ...text, "text-offset": [0, -1], "symbol-placement": "line-center" })
}

/** Levelled points by their settlement, on the radar's datum and scale; a red edge where its building differs from the radar. */
export function addLevelling(map, points, { colours, edges }) {
    const settled = ["+", ["get", "change_mm"], ["coalesce", ["get", "datum_mm"], 0]]
    const differs = ["==", ["get", "settlement_agrees"], false]
    map.addSource("levelling", { type: "geojson", data: points, maxzoom: 18 })
    map.addLayer({
        id: "levelling", type: "circle", source: "levelling",
        paint: {
            "circle-color": ["case", ["has", "change_mm"], steps(settled, colours, edges), UNKNOWN],
            "circle-radius": ["interpolate", ["linear"], ["zoom"], 12, 2, 18, 7],
            "circle-stroke-color": ["case", differs, DIFFERS, "#333"],
            "circle-stroke-width": ["case", differs, 3, 1],
        },
    })
}

export function addOverlays(map, overlays) {
    overlays.forEach(({ png, corners }, i) => {
        map.addSource(`overlay-${i}`, { type: "image", url: png, coordinates: corners })
        map.addLayer({
            id: `overlay-${i}`, type: "raster", source: `overlay-${i}`, layout: { visibility: "none" },
            paint: { "raster-opacity": 0.8, "raster-resampling": "nearest", "raster-fade-duration": 0 },
        }, "hexagons")
    })
}

/** All layers but the points, which wait until they are asked for. `near`: zoom from which footprints are drawn. */
export function addLayers(map, city, near) {
    addHexagons(map, city)
    addBuildings(map, city, near)
    addOverlays(map, city.overlays)
}
