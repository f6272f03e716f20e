// Where a machine draws slowly, as one without a GPU, the map is coarser while it moves, and sharp when it rests.

/** A frame that takes longer than this is a slow one. */
const SLOW_MS = 34
/** After so many slow frames, more than the quick ones between them, the map is drawn coarser. */
const PATIENCE = 3
const COARSE = 0.4
/** Lines take longer than the areas they go around. */
const LINES = ["edges", "quarter-edges", "hexagon-edges"]

export function keepSmooth(map) {
    function draw(ratio, opacity) {
        for (const id of LINES) if (map.getLayer(id)) map.setPaintProperty(id, "line-opacity", opacity)
        map.setPixelRatio(ratio)
    }

    let last = 0
    let slow = 0
    let coarse = false
    map.on("render", () => {
        if (!map.isMoving()) {
            last = slow = 0
            return
        }
        const now = performance.now()
        if (last) slow = now - last > SLOW_MS ? slow + 1 : Math.max(0, slow - 1)
        last = now
        if (coarse || slow < PATIENCE) return
        coarse = true
        setTimeout(() => draw(COARSE * devicePixelRatio, 0)) // not in the middle of drawing
    })
    map.on("idle", () => {
        if (!coarse) return
        coarse = false
        draw(undefined, 1)
    })
}
