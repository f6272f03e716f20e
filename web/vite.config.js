import { readFileSync } from "node:fs"
import { defineConfig } from "vite"

// Whoever hands on a map hands on these libraries: their licences ask for their text to go with them.
const licences = ["maplibre-gl/LICENSE.txt", "h3-js/LICENSE", "uplot/LICENSE"]
    .map(file => `${file.split("/")[0]}\n\n${readFileSync(`node_modules/${file}`, "utf8").replaceAll("*/", "* /")}`)
    .join("\n\n")

export default defineConfig({
    build: {
        outDir: "../src/plumbline/serve/map/page",
        emptyOutDir: true,
        // MapLibre makes its worker from the text of its functions: nothing may be moved out of them.
        target: "es2022",
        lib: { entry: "src/main.js", name: "plumbline", formats: ["iife"], fileName: () => "app.js", cssFileName: "app" },
    },
    plugins: [
        {
            name: "licences",
            generateBundle(_, bundle) {
                bundle["app.js"].code = `/*! Libraries in this script:\n\n${licences}\n*/\n${bundle["app.js"].code}`
            },
        },
    ],
})
