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
# message -> field -> number, kind (a message or enum by its name), whether repeated
MESSAGES = {
    "ModelTensorReshape": {"shape": (1, "int64", True)},
    "ModelInput": {
        "name": (1, "string", False),
        "data_type": (2, "DataType", False),
        "dims": (4, "int64", True),
        "reshape": (5, "ModelTensorReshape", False),
        "optional": (8, "bool", False),
    },
    "ModelOutput": {
        "name": (1, "string", False),
        "data_type": (2, "DataType", False),
        "dims": (3, "int64", True),
        "reshape": (5, "ModelTensorReshape", False),
    },
    "Latest": {"num_versions": (1, "uint32", False)},
    "Specific": {"versions": (1, "int64", True)},
    "ModelVersionPolicy": {"latest": (1, "Latest", False), "specific": (3, "Specific", False)},
    "Graph": {"level": (1, "int32", False)},
    "TextEntry": {"key": (1, "string", False), "value": (2, "string", False)},
    "Accelerator": {"name": (1, "string", False), "parameters": (2, "TextEntry", True)},
    "ExecutionAccelerators": {
        "gpu_execution_accelerator": (1, "Accelerator", True),
        "cpu_execution_accelerator": (2, "Accelerator", True),
    },
    "ModelOptimizationPolicy": {
        "graph": (1, "Graph", False),
        "execution_accelerators": (4, "ExecutionAccelerators", False),
    },
    "ModelDynamicBatching": {
        "preferred_batch_size": (1, "int32", True),
        "max_queue_delay_microseconds": (2, "uint64", False),
    },
    "ModelInstanceGroup": {
        "name": (1, "string", False),
        "count": (2, "int32", False),
        "gpus": (3, "int32", True),
        "kind": (4, "Kind", False),
    },
    "ModelParameter": {"string_value": (1, "string", False)},
    "ParameterEntry": {"key": (1, "string", False), "value": (2, "ModelParameter", False)},
    "ModelConfig": {
        "name": (1, "string", False),
        "platform": (2, "string", False),
        "version_policy": (3, "ModelVersionPolicy", False),
        "max_batch_size": (4, "int32", False),
        "input": (5, "ModelInput", True),
        "output": (6, "ModelOutput", True),
        "instance_group": (7, "ModelInstanceGroup", True),
        "default_model_filename": (8, "string", False),
        "dynamic_batching": (11, "ModelDynamicBatching", False),
        "optimization": (12, "ModelOptimizationPolicy", False),
        "parameters": (14, "ParameterEntry", True),
        "backend": (17, "string", False),
    },
}


def _message_class():
    file = descriptor_pb2.FileDescriptorProto(name="model_config_part.proto", package="inference", syntax="proto3")
    for name, values in ENUMS.items():
        file.enum_type.add(name=name).value.extend(
            descriptor_pb2.EnumValueDescriptorProto(name=key, number=number) for key, number in values.items()
        )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, repeated) in fields.items():
            made = message.field.add(name=field, number=number, label=3 if repeated else 1)
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
