"""Asks a server over gRPC with Debian's grpcio, and with messages that are put together here byte by byte from the
published field numbers: nothing of muster's own is used.

    grpc_client.py ADDRESS MODEL INPUT OUTPUT VALUE [--ca FILE] [--token TOKEN]

INPUT is a float vector of the signature serving_default. Prints one line per call.
"""
import argparse
import struct
import sys

import grpc


def varint(value):
    out = b""
    while True:
        byte = value & 0x7F
        value >>= 7
        if value == 0:
            return out + bytes([byte])
        out += bytes([byte | 0x80])


def field(number, content):
    """A length-delimited field."""
    if isinstance(content, str):
        content = content.encode()
    return varint(number << 3 | 2) + varint(len(content)) + content


def number_field(number, value):
    return varint(number << 3) + varint(value)


def fields(message):
    """The fields of a message: (number, value), where value is bytes or an int."""
    at = 0

    def take_varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    found = []
    while at < len(message):
        key = take_varint()
        kind = key & 7
        if kind == 0:
            found.append((key >> 3, take_varint()))
        elif kind == 2:
            size = take_varint()
            found.append((key >> 3, message[at:at + size]))
            at += size
        elif kind == 5:
            found.append((key >> 3, message[at:at + 4]))
            at += 4
        else:
            found.append((key >> 3, message[at:at + 8]))
            at += 8
    return found


def get(message, *path):
    """The first field along a path of numbers."""
    for number in path:
        message = next(value for key, value in fields(message) if key == number)
    return message


def model_spec(name, signature=""):
    return field(1, name) + (field(3, signature) if signature else b"")


def float_tensor(values):
    shape = field(2, number_field(1, len(values)))
    return number_field(1, 1) + field(2, shape) + field(4, struct.pack("<%df" % len(values), *values))


def predict_request(model, name, values, signature=""):
    entry = field(1, name) + field(2, float_tensor(values))
    return field(1, model_spec(model, signature)) + field(2, entry)


def infer_request(model, name, values):
    tensor = field(1, name) + field(2, "FP32") + field(3, varint(len(values)))
    return field(1, model) + field(3, "id-1") + field(5, tensor) + field(7, struct.pack("<%df" % len(values), *values))


def main():
    parser = argparse.ArgumentParser()
    for name in ("address", "model", "input", "output"):
        parser.add_argument(name)
    parser.add_argument("value", type=float)
    parser.add_argument("--ca")
    parser.add_argument("--token")
    args = parser.parse_args()
    if args.ca:
        with open(args.ca, "rb") as file:
            channel = grpc.secure_channel(args.address, grpc.ssl_channel_credentials(file.read()))
    else:
        channel = grpc.insecure_channel(args.address)
    metadata = [("authorization", "Bearer " + args.token)] if args.token else None

    def call(method, request):
        try:
            return channel.unary_unary(method)(request, timeout=60, metadata=metadata)
        except grpc.RpcError as error:
            return error

    def show(what, method, request, read):
        answer = call(method, request)
        if isinstance(answer, grpc.RpcError):
            print(what, answer.code().name, answer.details())
        else:
            print(what, read(answer))

    serving = "/tensorflow.serving.PredictionService/"
    inference = "/inference.GRPCInferenceService/"
    values = [args.value, 2 * args.value]

    def floats_of(message):
        for key, entry in fields(message):
            if key == 1 and get(entry, 1).decode() == args.output:
                packed = get(entry, 2, 5)
                return list(struct.unpack("<%df" % (len(packed) // 4), packed))
        return None

    show("predict", serving + "Predict", predict_request(args.model, args.input, values), floats_of)
    show("version", serving + "Predict", predict_request(args.model, args.input, values),
         lambda answer: get(answer, 2, 2, 1))
    show("unknown-model", serving + "Predict", predict_request("nobody", args.input, values), floats_of)
    show("unknown-signature", serving + "Predict", predict_request(args.model, args.input, values, "s"), floats_of)
    show("wrong-input", serving + "Predict", predict_request(args.model, "nothing", values), floats_of)
    show("garbage", serving + "Predict", b"\xff\xff\xff", floats_of)
    show("metadata", serving + "GetModelMetadata", field(1, model_spec(args.model)) + field(2, "signature_def"),
         lambda answer: get(answer, 2, 2, 1).decode())
    show("status", "/tensorflow.serving.ModelService/GetModelStatus", field(1, model_spec(args.model)),
         lambda answer: get(answer, 1, 2))
    show("infer", inference + "ModelInfer", infer_request(args.model, args.input, values),
         lambda answer: (get(answer, 3).decode(), struct.unpack("<2f", get(answer, 6))))
    show("ready", inference + "ServerReady", b"", lambda answer: get(answer, 1))
    show("health", "/grpc.health.v1.Health/Check", b"", lambda answer: get(answer, 1))

    def reflected():
        stream = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        answer = next(stream(iter([field(7, "*")]), timeout=60))
        return sorted(get(service, 1).decode() for key, service in fields(get(answer, 6)) if key == 1)

    def watched():
        stream = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=60)
        return get(next(stream), 1)

    def reflected_messages():
        """The services of the files that a client needs to call one of them."""
        from google.protobuf import descriptor_pb2
        stream = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        answer = next(stream(iter([field(4, "tensorflow.serving.PredictionService")]), timeout=60))
        files = [descriptor_pb2.FileDescriptorProto.FromString(file) for key, file in fields(get(answer, 4)) if key == 1]
        names = {file.name for file in files}
        assert all(name in names for file in files for name in file.dependency)
        return sorted(service.name for file in files for service in file.service)

    try:
        print("reflection", " ".join(reflected()))
        print("reflection", " ".join(reflected_messages()))
    except grpc.RpcError as error:
        print("reflection", error.code().name)
    print("watch", watched())

    stream = channel.stream_stream(inference + "ModelStreamInfer")
    requests = [infer_request(args.model, args.input, values), infer_request("nobody", args.input, values)]
    try:
        for answer in stream(iter(requests), timeout=60, metadata=metadata):
            if any(key == 1 for key, _ in fields(answer)):
                print("stream", get(answer, 1).decode())
            else:
                print("stream", struct.unpack("<2f", get(answer, 2, 6)))
    except grpc.RpcError as error:
        print("stream", error.code().name)


if __name__ == "__main__":
    sys.exit(main())
