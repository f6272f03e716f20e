// The fields of the service's form, by the names that the server knows them by.

export const LABELS = {
    points: "Points, one file a track",
    buildings: "Buildings",
    causes: "Causes, if you know some",
    format: "Format of the points",
    id_column: "Column that names a building",
    layer: "Layer of the buildings",
    damage_rate: "Share of damaged buildings",
    since: "Since",
    until: "Until",
    min_quadrant_confidence: "Least confidence in the quadrant",
    params: "Parameters file",
    cell: "Side of a cell of the field, m",
    bbox: "Part of the field",
}

/** The server's message with the form's labels in place of the fields that it names. */
export const inWords = text => text.replace(/`(\w+)`/g, (all, name) => (LABELS[name] ? `\u201c${LABELS[name]}\u201d` : all))
