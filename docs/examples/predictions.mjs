// Plumbline's predictions from tensors: the network, then the second graph of its package.

const pick = (session, tensors) => Object.fromEntries(session.inputNames.map(name => [name, tensors[name]]))

// Returns column -> values; null is an empty cell.
// manifest: manifest.json. network, second: sessions of model.onnx and predictions.onnx.
// inputs: name -> ort.Tensor, as manifest.inputs declares them, with damage_rate and hides_damage.
export async function predict(manifest, network, second, inputs) {
    const raw = await network.run(pick(network, inputs))
    const tensors = {...inputs}
    for (const name of network.outputNames) tensors[`raw_${name}`] = raw[name]
    const answers = await second.run(pick(second, tensors))
    const columns = manifest.predictions.outputs.map(({name, values}) => {
        const text = code => (code < 0 ? null : values[code])
        const number = value => (Number.isNaN(value) ? null : value)
        return [name, Array.from(answers[name].data, values ? text : number)]
    })
    return Object.fromEntries(columns)
}

// Returns the tensors of a part of vectors.json; `ort` is onnxruntime-node or onnxruntime-web.
export function tensorsOf(ort, part) {
    const tensors = Object.entries(part).map(([name, {type, shape, data}]) => {
        const values = type === "bool" ? Uint8Array.from(data) : Float32Array.from(data, value => value ?? NaN)
        return [name, new ort.Tensor(type, values, shape)]
    })
    return Object.fromEntries(tensors)
}
