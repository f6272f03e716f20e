// The map itself: hexagons from afar, footprints from near, and what is chosen.

import maplibregl from "maplibre-gl"
import { assignCells, boundsOf, hexagons, metresPerPixel, middles, resolutionAt } from "./hexagons.js"
import { DEFAULT_COLOURS, HATCH, MEASURES, scaleOf } from "./colours.js"
import { causeNode, levelledNode } from "./details.js"
import { quarterFeatures } from "./frame.js"
import { wide } from "./legend.js"
import { keepSmooth } from "./smoothness.js"
import { CAUSES, EMPTY, HEXAGONS, damageFill, measureFill, addAreas, addCauses, addLayers, addLevelling, addPoints, baseStyle, footprints } from "./layers.js"

/** From this scale inwards footprints are drawn: a house of 10 m then has 5 px. */
const FAR_M_PER_PX = 2
/** A building that the list leads to is shown at this zoom. */
const CLOSE_ZOOM = 18
/** A click this far beside a cause or a point is on it. */
const SLACK_PX = 4

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches

/** Draw the map; `on.choose(building | null)`, `on.choosePoint(track, dot)` and `on.move(center, zoom)` hear what the user does,
 * `on.far()` when the map changes between hexagons and footprints. */
export function createMap(container, city, at, on) {
    const [west, south, east, north] = city.bounds
    const lat = (south + north) / 2
    const near = Math.log2(metresPerPixel(0, lat) / FAR_M_PER_PX)
    // The legend stands in the lower left corner: where it is open, the city begins beside it.
    const padding = { top: 24, right: 24, bottom: 24, left: wide() ? 270 : 24 }
    const map = new maplibregl.Map({
        container,
        style: baseStyle(city.basemap, city.basemap_attribution),
        ...(at ?? { bounds: [[west, south], [east, north]], fitBoundsOptions: { padding, maxZoom: 19 } }),
        attributionControl: city.basemap ? { compact: true } : false,
        maxZoom: 22,
        dragRotate: false,
        pitchWithRotate: false,
        touchPitch: false,
        fadeDuration: 0,
        locale: { "Map.Title": "Map of the buildings" },
    })
    map.touchZoomRotate.disableRotation()
    map.addControl(new maplibregl.NavigationControl({ showCompass: false }), "top-left")
    map.addControl(new maplibregl.ScaleControl({ maxWidth: 110 }), "bottom-left")
    keepSmooth(map)
    const state = { shown: city.buildings, resolution: null, stale: true, far: true, tracks: new Set(), by: DEFAULT_COLOURS }
    assignCells(city.buildings)
    if (!at && city.buildings.length) map.jumpTo(whole())

    /** The view of the whole city: of its footprints, or from afar of its hexagons, which reach further. */
    function whole() {
        const fit = ([left, bottom, right, top]) => map.cameraForBounds([[left, bottom], [right, top]], { padding, maxZoom: 19 })
        let camera = fit(city.bounds)
        // Larger hexagons may need a view from further away, which has larger ones still.
        for (let i = 0; i < 3 && camera.zoom < near; i++) camera = fit(boundsOf(city.buildings, resolutionAt(camera.zoom, lat)))
        return camera
    }

    function drawHexagons(force) {
        const resolution = resolutionAt(map.getZoom(), lat)
        if (!force && resolution === state.resolution) return
        state.resolution = resolution
        const areas = hexagons(state.shown, resolution)
        map.getSource("hexagons").setData(areas)
        map.getSource("middles").setData(middles(areas))
    }

    /** Footprints are handed over only when the map comes near: the first picture of a large city needs none. */
    function drawFootprints() {
        if (!state.stale || map.getZoom() < near - 0.7) return
        state.stale = false
        map.getSource("buildings").setData(footprints(state.shown, state.by))
        map.getSource("quarters").setData({ ...EMPTY, features: state.shown.flatMap(quarterFeatures) })
    }

    function draw(force = false) {
        if (map.getZoom() < near || state.far) drawHexagons(force)
        else if (force) state.resolution = null
        drawFootprints()
    }

    /** From near, hexagons stay until the footprints are drawn: a large city's take seconds. */
    function keepHexagons() {
        const drawn = !state.stale && ["buildings", "quarters"].every(source => map.isSourceLoaded(source))
        const far = map.getZoom() < near || (state.far && !drawn)
        if (far === state.far) return
        state.far = far
        for (const layer of HEXAGONS) map.setLayoutProperty(layer, "visibility", far ? "visible" : "none")
        on.far()
    }

    const buildingAt = point => {
        const found = map.queryRenderedFeatures(point, { layers: ["footprints"] })
        return found.length ? city.buildings[found[0].id] : null
    }
    const beside = ({ x, y }, layers) => map.queryRenderedFeatures([[x - SLACK_PX, y - SLACK_PX], [x + SLACK_PX, y + SLACK_PX]], { layers })
    const causeAt = point => map.getLayer("causes") && beside(point, CAUSES)[0]
    const dotAt = (point, layer) => {
        if (!map.getLayer(layer)) return undefined
        const away = ({ geometry }) => map.project(geometry.coordinates).dist(point)
        return beside(point, [layer]).sort((a, b) => away(a) - away(b))[0]
    }
    const pointAt = point => dotAt(point, "points")
    const levelledAt = point => dotAt(point, "levelling")
    const hexagonAt = point => map.queryRenderedFeatures(point, { layers: ["hexagons"] })[0]

    /** Switch the layers of a source that is added when it is asked for. */
    const switched = (source, visible, add) => loaded.then(() => {
        if (!map.getSource(source)) add()
        for (const layer of map.getStyle().layers.filter(one => one.source === source))
            map.setLayoutProperty(layer.id, "visibility", visible ? "visible" : "none")
    })

    const loaded = new Promise(resolve => map.once("style.load", () => {
        addLayers(map, city, near)
        draw(true)
        map.on("render", keepHexagons)
        map.once("idle", () => performance.mark("map drawn"))
        resolve()
    }))
    map.on("zoom", () => map.getSource("hexagons") && draw())
    map.on("moveend", () => on.move(map.getCenter(), map.getZoom()))
    map.on("click", event => {
        const popup = node => new maplibregl.Popup({ maxWidth: "300px" }).setLngLat(event.lngLat).setDOMContent(node).addTo(map)
        const levelled = levelledAt(event.point)
        if (levelled) {
            popup(levelledNode(levelled.properties))
            return
        }
        const point = pointAt(event.point)
        if (point) {
            on.choosePoint(point.properties.track, point.properties.dot)
            return
        }
        const cause = !buildingAt(event.point) && causeAt(event.point)
        if (cause) {
            popup(causeNode(cause.properties))
            return
        }
        const hexagon = hexagonAt(event.point)
        if (hexagon) map.easeTo({ center: event.lngLat, zoom: map.getZoom() + 2, animate: !calm() })
        else on.choose(buildingAt(event.point))
    })
    map.on("mousemove", event => {
        if (map.isMoving() || !map.getLayer("footprints")) return
        map.getCanvas().style.cursor = [hexagonAt, levelledAt, pointAt, buildingAt, causeAt].some(at => at(event.point)) ? "pointer" : ""
    })

    return {
        map,
        loaded,
        near,
        far: () => state.far,
        show(shown) {
            Object.assign(state, { shown, stale: true })
            loaded.then(() => draw(true))
        },
        colour: by => loaded.then(() => {
            // Hatching and shaded quarters belong to the colours of damage: under others, they would look like a class.
            const measured = by in MEASURES
            if (measured || state.by in MEASURES) state.stale = true
            state.by = by
            for (const layer of [...Object.keys(HATCH).map(group => `abstained-${group}`), "quarters", "quarter-edges"])
                map.setLayoutProperty(layer, "visibility", measured ? "none" : "visible")
            map.setPaintProperty("footprints", "fill-color", measured ? measureFill(scaleOf(city.buildings, by)) : damageFill(by, city.probability_classes))
            drawFootprints()
        }),
        /** Mark what has this geometry; nothing without. */
        mark: geometry => loaded.then(() => map.getSource("chosen").setData(
            geometry ? { type: "Feature", geometry, properties: {} } : EMPTY)),
        /** The box of a building in the window: left, top, right, bottom, px. */
        boxOf(building) {
            const { left, top } = map.getCanvas().getBoundingClientRect()
            const corners = building.geometry.coordinates.flat(building.geometry.type === "Polygon" ? 1 : 2).map(place => map.project(place))
            const [x, y] = ["x", "y"].map(axis => corners.map(corner => corner[axis]))
            return [left + Math.min(...x), top + Math.min(...y), left + Math.max(...x), top + Math.max(...y)]
        },
        /** Go there, to the middle of what `left` and `right` px at the sides leave free. */
        goTo(building, { left, right }) {
            const zoom = Math.max(map.getZoom(), CLOSE_ZOOM)
            const far = map.project(building.centre).dist(map.project(map.getCenter())) > 4000
            const offset = [(left - right) / 2, 0]
            map.easeTo({ center: building.centre, zoom, offset, animate: !far && !calm() })
        },
        showAll: () => map.easeTo({ ...(city.buildings.length ? whole() : map.cameraForBounds(city.bounds, { padding })), animate: !calm() }),
        points: (track, visible) => loaded.then(() => {
            if (!map.getSource("points")) addPoints(map, city.points, city.velocity_limit)
            state.tracks[visible ? "add" : "delete"](track)
            map.setFilter("points", ["in", ["get", "track"], ["literal", [...state.tracks]]])
        }),
        areas: visible => switched("areas", visible, () => addAreas(map, city.areas, city.velocity_limit)),
        causes: visible => switched("causes", visible, () => addCauses(map, city.causes)),
        levelling: visible => switched("levelling", visible, () => addLevelling(map, city.levelling, scaleOf(city.buildings, "settlement_mm"))),
        overlay: (chosen, opacity) => loaded.then(() => city.overlays.forEach((_, i) => {
            map.setLayoutProperty(`overlay-${i}`, "visibility", i === chosen ? "visible" : "none")
            map.setPaintProperty(`overlay-${i}`, "raster-opacity", opacity)
        })),
    }
}
