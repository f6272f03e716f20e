// The place, the zoom and the chosen building in the address, so that a link leads to the same view.

export function readLink(hash = location.hash) {
    const parts = new URLSearchParams(hash.replace(/^#/, ""))
    const [lon, lat, zoom] = (parts.get("at") ?? "").split(",").map(Number)
    const place = [lon, lat, zoom].every(Number.isFinite) && Math.abs(lat) <= 90
    return { at: place && parts.has("at") ? { center: [lon, lat], zoom } : null, id: parts.get("id") }
}

export function writeLink(center, zoom, id) {
    const parts = new URLSearchParams({ at: [center.lng.toFixed(6), center.lat.toFixed(6), zoom.toFixed(2)].join(",") })
    if (id !== null && id !== undefined) parts.set("id", id)
    // Commas stay readable. A frame may forbid changing the address; the map works without.
    try {
        history.replaceState(history.state, "", `#${parts.toString().replaceAll("%2C", ",")}`)
    } catch {
        // Nothing to do.
    }
}
