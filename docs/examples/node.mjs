// npm install onnxruntime-node && node node.mjs PACKAGE
import {readFile} from "node:fs/promises"
import ort from "onnxruntime-node"
import {predict, tensorsOf} from "./predictions.mjs"

const folder = process.argv[2]
const read = async name => JSON.parse(await readFile(`${folder}/${name}`, "utf8"))
const open = name => ort.InferenceSession.create(`${folder}/${name}`)

const [manifest, vectors] = [await read("manifest.json"), await read("vectors.json")]
const [network, second] = [await open("model.onnx"), await open("predictions.onnx")]
console.log(JSON.stringify(await predict(manifest, network, second, tensorsOf(ort, vectors.inputs))))
