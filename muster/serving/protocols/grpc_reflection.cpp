#include "muster/serving/protocols/grpc_reflection_internal.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <fmt/core.h>
#include <set>

#include "muster/base/error.h"
#include "muster/data/records/wire.h"
#include "muster/serving/protocols/grpc_services_internal.h"

namespace muster::serving {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

// The numbers of fields, by message.
constexpr std::uint32_t kRequestHost = 1;
constexpr std::uint32_t kRequestFileByName = 3;
constexpr std::uint32_t kRequestFileBySymbol = 4;
constexpr std::uint32_t kRequestFileByExtension = 5;
constexpr std::uint32_t kRequestExtensionNumbers = 6;
constexpr std::uint32_t kRequestListServices = 7;
constexpr std::uint32_t kExtensionType = 1;
constexpr std::uint32_t kExtensionNumber = 2;
constexpr std::uint32_t kResponseHost = 1;
constexpr std::uint32_t kResponseRequest = 2;
constexpr std::uint32_t kResponseFiles = 4;
constexpr std::uint32_t kResponseExtensionNumbers = 5;
constexpr std::uint32_t kResponseServices = 6;
constexpr std::uint32_t kResponseError = 7;
constexpr std::uint32_t kFilesFile = 1;
constexpr std::uint32_t kNumbersType = 1;
constexpr std::uint32_t kNumbersNumber = 2;
constexpr std::uint32_t kServicesService = 1;
constexpr std::uint32_t kServiceName = 1;
constexpr std::uint32_t kErrorCode = 1;
constexpr std::uint32_t kErrorMessage = 2;

void append_text(std::uint32_t field, std::string_view text, std::string& out) {
  wire::append_header(field, text.size(), out);
  out += text;
}

void append_number(std::uint32_t field, std::uint64_t number, std::string& out) {
  wire::append_varint(wire::tag(field, wire::kVarint), out);
  wire::append_varint(number, out);
}

void append_error(ErrorCode code, std::string_view message, std::string& out) {
  std::string error;
  append_number(kErrorCode, static_cast<std::uint64_t>(code), error);
  append_text(kErrorMessage, message, error);
  append_text(kResponseError, error, out);
}

// The file and those it needs, each once; clients take them in any order.
void append_file(const FileDescriptor& file, std::set<const FileDescriptor*>& done,
                 std::string& out) {
  if (!done.insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  append_text(kFilesFile, proto.SerializeAsString(), out);
  for (int i = 0; i < file.dependency_count(); ++i) append_file(*file.dependency(i), done, out);
}

void append_files(const FileDescriptor* file, std::string_view what, std::string& out) {
  if (file == nullptr) {
    return append_error(ErrorCode::kNotFound, fmt::format("{} not found.", what), out);
  }
  std::set<const FileDescriptor*> done;
  std::string files;
  append_file(*file, done, files);
  append_text(kResponseFiles, files, out);
}

void append_services(const std::vector<std::string>& services, std::string& out) {
  std::string list;
  for (const std::string& name : services) {
    std::string service;
    append_text(kServiceName, name, service);
    append_text(kServicesService, service, list);
  }
  append_text(kResponseServices, list, out);
}

const DescriptorPool& pool() { return *DescriptorPool::generated_pool(); }

const FileDescriptor* file_with_extension(std::string_view bytes) {
  wire::Reader reader(bytes, 0);
  std::string type;
  std::uint64_t number = 0;
  while (!reader.done()) {
    const std::uint32_t field = reader.tag();
    if (field == wire::tag(kExtensionType, wire::kBytes)) {
      type = reader.bytes();
    } else if (field == wire::tag(kExtensionNumber, wire::kVarint)) {
      number = reader.varint();
    } else {
      reader.skip(field);
    }
  }
  const Descriptor* const message = pool().FindMessageTypeByName(type);
  if (message == nullptr) return nullptr;
  const FieldDescriptor* const extension =
      pool().FindExtensionByNumber(message, static_cast<int>(number));
  return extension == nullptr ? nullptr : extension->file();
}

void append_extension_numbers(const std::string& type, std::string& out) {
  const Descriptor* const message = pool().FindMessageTypeByName(type);
  if (message == nullptr) return append_error(ErrorCode::kNotFound, "Type not found.", out);
  std::vector<const FieldDescriptor*> extensions;
  pool().FindAllExtensions(message, &extensions);
  std::string numbers;
  append_text(kNumbersType, type, numbers);
  for (const FieldDescriptor* extension : extensions) {
    append_number(kNumbersNumber, static_cast<std::uint64_t>(extension->number()), numbers);
  }
  append_text(kResponseExtensionNumbers, numbers, out);
}

}  // namespace

std::string answer_reflection(std::string_view request, const std::vector<std::string>& services) {
  wire::Reader reader(request, 0);
  std::string host;
  std::uint32_t asked = 0;
  std::string value;
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    const std::uint32_t field = tag >> 3;
    if (tag != wire::tag(field, wire::kBytes) || field > kRequestListServices) {
      reader.skip(tag);
    } else if (field == kRequestHost) {
      host = reader.bytes();
    } else {
      asked = field;
      value = reader.bytes();
    }
  }
  std::string out;
  append_text(kResponseHost, host, out);
  append_text(kResponseRequest, request, out);
  switch (asked) {
    case kRequestFileByName:
      append_files(pool().FindFileByName(value), "File", out);
      break;
    case kRequestFileBySymbol:
      append_files(pool().FindFileContainingSymbol(value), "Symbol", out);
      break;
    case kRequestFileByExtension:
      append_files(file_with_extension(value), "Extension", out);
      break;
    case kRequestExtensionNumbers:
      append_extension_numbers(value, out);
      break;
    case kRequestListServices:
      append_services(services, out);
      break;
    default:
      append_error(ErrorCode::kUnimplemented, "", out);
  }
  return out;
}

void add_reflection_methods(const Service& service, std::vector<std::string> services,
                            GrpcMethods& methods) {
  const GrpcMethod method{
      .work = GrpcWork::kLong,
      .converse =
          [services = std::move(services)](const GrpcContext&, std::string_view message,
                                           const GrpcReply& reply) {
            std::string answer;
            try {
              answer = answer_reflection(message, services);
            } catch (const Error& error) {
              throw InvalidArgument("{}", error.message());
            }
            reply(std::move(answer), nullptr);
          },
      .check = [&service](
                   const GrpcContext& context) { check_access(service, context, Role::kPredict); }};
  // Both have the same messages; the older name is the one that is told.
  for (const char* version : {"v1alpha", "v1"}) {
    methods[fmt::format("/grpc.reflection.{}.ServerReflection/ServerReflectionInfo", version)] =
        method;
  }
}

}  // namespace muster::serving
