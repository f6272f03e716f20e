// Plumbline's predictions from tensors: the network, then the second graph of its package.
// g++ -std=c++20 predictions.cpp -I ONNXRUNTIME/include -L ONNXRUNTIME/lib -lonnxruntime -o predictions
// ./predictions PACKAGE
#include <onnxruntime_cxx_api.h>

#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

using nlohmann::ordered_json;
using Tensors = std::map<std::string, Ort::Value>;

ordered_json read(const std::string& path) { return ordered_json::parse(std::ifstream(path)); }

// Makes the tensors of a part of vectors.json; null is NaN.
Tensors tensors_of(const ordered_json& part) {
    Ort::AllocatorWithDefaultOptions allocator;
    Tensors tensors;
    for (const auto& [name, tensor] : part.items()) {
        const auto shape = tensor["shape"].get<std::vector<int64_t>>();
        const bool is_mask = tensor["type"] == "bool";
        const auto type = is_mask ? ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
        auto value = Ort::Value::CreateTensor(allocator, shape.data(), shape.size(), type);
        size_t place = 0;
        for (const auto& number : tensor["data"]) {
            if (is_mask) value.GetTensorMutableData<bool>()[place++] = number.get<bool>();
            else value.GetTensorMutableData<float>()[place++] = number.is_null() ? NAN : number.get<float>();
        }
        tensors.emplace(name, std::move(value));
    }
    return tensors;
}

// Runs a graph on those of the tensors that it takes, and adds its outputs, named prefix + name.
void run(Ort::Env& env, const std::string& path, Tensors& tensors, const std::string& prefix) {
    Ort::Session session(env, path.c_str(), Ort::SessionOptions{});
    Ort::AllocatorWithDefaultOptions allocator;
    std::vector<std::string> names;
    for (size_t i = 0; i < session.GetInputCount(); ++i)
        names.push_back(session.GetInputNameAllocated(i, allocator).get());
    for (size_t i = 0; i < session.GetOutputCount(); ++i)
        names.push_back(session.GetOutputNameAllocated(i, allocator).get());
    Ort::IoBinding binding(session);
    for (size_t i = 0; i < names.size(); ++i) {
        if (i < session.GetInputCount()) binding.BindInput(names[i].c_str(), tensors.at(names[i]));
        else binding.BindOutput(names[i].c_str(), Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault));
    }
    session.Run(Ort::RunOptions{}, binding);
    auto outputs = binding.GetOutputValues();
    for (size_t i = 0; i < outputs.size(); ++i)
        tensors.insert_or_assign(prefix + names[session.GetInputCount() + i], std::move(outputs[i]));
}

int main(int, char** arguments) {
    const std::string folder = arguments[1];
    const auto manifest = read(folder + "/manifest.json");
    auto tensors = tensors_of(read(folder + "/vectors.json")["inputs"]);
    Ort::Env env;
    run(env, folder + "/model.onnx", tensors, "raw_");
    run(env, folder + "/predictions.onnx", tensors, "");

    ordered_json table;
    for (const auto& column : manifest["predictions"]["outputs"]) {
        const auto& value = tensors.at(column["name"].get<std::string>());
        auto& cells = table[column["name"].get<std::string>()] = ordered_json::array();
        for (size_t i = 0; i < value.GetTensorTypeAndShapeInfo().GetElementCount(); ++i) {
            if (!column.contains("values")) {
                const float number = value.GetTensorData<float>()[i];
                cells.push_back(std::isnan(number) ? ordered_json() : ordered_json(number));
            } else {
                const int code = value.GetTensorData<int32_t>()[i];
                cells.push_back(code < 0 ? ordered_json() : column["values"][code]);
            }
        }
    }
    std::cout << table.dump() << std::endl;
}
