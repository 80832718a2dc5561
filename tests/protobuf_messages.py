"""Messages of Caffe and SINGA for the protobuf library, made from descriptions: what ours must agree with."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

KINDS = {"int32": 5, "bytes": 12, "float": 2, "bool": 8, "enum": 5, "string": 9, "int64": 3}


def messages(package, **described):
    """Return the classes of messages: {name: {field: (number, type, label, packed)}}."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    for name, fields in described.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, repeated, packed) in fields.items():
            entry = message.field.add(name=field, number=number, label=3 if repeated else 1)
            if kind in KINDS:
                entry.type = KINDS[kind]
            else:
                entry.type, entry.type_name = 11, f".{package}.{kind}"
            if packed:
                entry.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in described
    }
