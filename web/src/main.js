// The page begins here: with a document in it, it is a map; without, the service's form.

import "maplibre-gl/dist/maplibre-gl.css"
import "./style.css"
import { el } from "./dom.js"
import { showMap } from "./view.js"
import { showService } from "./upload.js"

const root = document.getElementById("app")

/** The document is base64 of gzip: tens of megabytes would make the file slow to send and to open. */
async function unpack(text) {
    const { body } = await fetch(`data:application/gzip;base64,${text}`)
    return new Response(body.pipeThrough(new DecompressionStream("gzip"))).json()
}

async function start() {
    document.createElement("canvas").getContext("webgl2") // starts the browser's drawing while the document is read
    const found = document.getElementById("document")
    if (!found) return showService(root)
    const content = await unpack(found.textContent)
    found.remove();
    window.plumbline = showMap(root, content)
}

start().catch(error => {
    root.replaceChildren(el("p", { class: "problem", role: "alert" }, `The map cannot be shown: ${error.message}`))
    throw error
})
