"""The part of Triton's `ModelConfig` that we write, as a message that protobuf's own text parser reads.

Names, kinds and numbers are those of triton-inference-server/common, protobuf/model_config.proto. The parser refuses
every name and value that is not here.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

Field = descriptor_pb2.FieldDescriptorProto
ENUMS = {
    "DataType": {"TYPE_INVALID": 0, "TYPE_BOOL": 1, "TYPE_INT32": 8, "TYPE_INT64": 9, "TYPE_FP16": 10, "TYPE_FP32": 11},
    "Kind": {"KIND_AUTO": 0, "KIND_GPU": 1, "KIND_CPU": 2, "KIND_MODEL": 3},
}
MESSAGES = {
    "ModelTensorReshape": "shape 1 int64*",
    "ModelInput": "name 1 string, data_type 2 DataType, dims 4 int64*, reshape 5 ModelTensorReshape, optional 8 bool",
    "ModelOutput": "name 1 string, data_type 2 DataType, dims 3 int64*, reshape 5 ModelTensorReshape",
    "Latest": "num_versions 1 uint32",
    "Specific": "versions 1 int64*",
    "ModelVersionPolicy": "latest 1 Latest, specific 3 Specific",
    "Graph": "level 1 int32",
    "TextEntry": "key 1 string, value 2 string",
    "Accelerator": "name 1 string, parameters 2 TextEntry*",
    "ExecutionAccelerators": "gpu_execution_accelerator 1 Accelerator*, cpu_execution_accelerator 2 Accelerator*",
    "ModelOptimizationPolicy": "graph 1 Graph, execution_accelerators 4 ExecutionAccelerators",
    "ModelDynamicBatching": "preferred_batch_size 1 int32*, max_queue_delay_microseconds 2 uint64",
    "ModelInstanceGroup": "name 1 string, count 2 int32, gpus 3 int32*, kind 4 Kind",
    "ModelParameter": "string_value 1 string",
    "ParameterEntry": "key 1 string, value 2 ModelParameter",
    "ModelConfig": (
        "name 1 string, platform 2 string, version_policy 3 ModelVersionPolicy, max_batch_size 4 int32, "
        "input 5 ModelInput*, output 6 ModelOutput*, instance_group 7 ModelInstanceGroup*, "
        "default_model_filename 8 string, dynamic_batching 11 ModelDynamicBatching, "
        "optimization 12 ModelOptimizationPolicy, parameters 14 ParameterEntry*, backend 17 string"
    ),
}
"""Message -> its fields: name, number and kind (a message or enum by its name), with `*` where it is repeated."""


def _message_class():
    file = descriptor_pb2.FileDescriptorProto(name="model_config_part.proto", package="inference", syntax="proto3")
    for name, values in ENUMS.items():
        file.enum_type.add(name=name).value.extend(
            descriptor_pb2.EnumValueDescriptorProto(name=key, number=number) for key, number in values.items()
        )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in (words.split() for words in fields.split(", ")):
            made = message.field.add(name=field, number=int(number), label=3 if kind.endswith("*") else 1)
            kind = kind.removesuffix("*")
            if kind in ENUMS or kind in MESSAGES:
                made.type = Field.TYPE_ENUM if kind in ENUMS else Field.TYPE_MESSAGE
                made.type_name = f".inference.{kind}"
            else:
                made.type = getattr(Field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("inference.ModelConfig"))


ModelConfig = _message_class()


def parse(text: str):
    """The message that a `config.pbtxt` says; raises `text_format.ParseError` where it is none."""
    return text_format.Parse(text, ModelConfig())
