// The page begins here: with a document in it, it is a map; without, the service's form.

import "maplibre-gl/dist/maplibre-gl.css"
import "./style.css"
import { el } from "./dom.js"
import { showMap } from "./view.js"
import { showUpload } from "./upload.js"

const root = document.getElementById("app")

function start() {
    const found = document.getElementById("document")
    if (!found) return showUpload(root)
    const content = JSON.parse(found.textContent)
    found.remove() // tens of megabytes of text that nobody reads again
    window.plumbline = showMap(root, content)
}

try {
    start()
} catch (error) {
    root.replaceChildren(el("p", { class: "problem", role: "alert" }, `The map cannot be shown: ${error.message}`))
    throw error
}
