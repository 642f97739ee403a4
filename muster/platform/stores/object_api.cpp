#include "muster/platform/stores/object_api.h"

#include "muster/base/base64.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/platform/stores/content_range.h"

namespace muster::stores {

std::optional<std::string> ObjectApi::version_with(const ObjectName& name, std::string_view bytes) {
  try {
    // One more than it should have, to see that there are no more.
    const ObjectRange found = get(name, 0, bytes.size() + 1, "", {});
    if (found.bytes == bytes && found.info.size_bytes == bytes.size()) return found.info.version;
  } catch (const NotFound&) {  // Removed meanwhile.
  }
  return std::nullopt;
}

ObjectRange ObjectApi::read_range(const RangeRead& read) {
  // Parts that are not those asked for, and whole objects whose bytes are not what their checksum
  // says.
  std::string flaw;
  HttpResponse response = read.send([&](const HttpResponse& answer) {
    flaw.clear();
    if (!answer.is_success()) return false;
    flaw = flaw_of_range(answer, read.offset, read.length);
    if (flaw.empty() && answer.body.size() == whole_bytes(answer)) {
      flaw = read.flaw_of_whole(answer);
    }
    return !flaw.empty();
  });
  if (response.status == 416) {
    // After the end, or any range of an empty object.
    const auto info = head(read.name);
    if (!info) throw NotFound("{}: no such object", read.what);
    return {.info = *info};
  }
  if (read.is_replaced(response)) {
    throw FailedPrecondition(
        "{}: it was replaced while it was read, or removed; read it from its beginning", read.what);
  }
  if (!response.is_success()) read.fail(response);
  if (!flaw.empty()) throw DataLoss("{}: {}", read.what, flaw);
  const ObjectInfo info{
      .size_bytes = whole_bytes(response),
      .modified_ns = parse_http_date(response.header("last-modified")) * 1'000'000'000,
      .version = response.header(read.version_header)};
  return {.bytes = take_range(std::move(response), read.offset, read.length), .info = info};
}

std::string crc32c_base64(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  const char big_endian[4] = {static_cast<char>(crc >> 24), static_cast<char>(crc >> 16),
                              static_cast<char>(crc >> 8), static_cast<char>(crc)};
  return base64_encode({big_endian, 4});
}

void throw_refusal(const std::string& what, int status, const std::string& why,
                   std::string_view credentials) {
  if (status == 404) throw NotFound("{}: no such object or bucket ({})", what, why);
  if (status == 401 || status == 403) {
    throw PermissionDenied(
        "{}: refused ({}); check the credentials ({}) and what they may do with this bucket", what,
        why, credentials);
  }
  if (is_worth_a_retry(status)) {
    throw Unavailable("{}: the store does not answer as it should ({}), also after retries", what,
                      why);
  }
  throw FailedPrecondition("{}: refused ({})", what, why);
}

void throw_no_bucket(const std::string& what, const std::string& bucket, const std::string& why) {
  throw NotFound(
      "{}: there is no bucket {} ({}); make it with the store's own tools, or check its "
      "name and the store's address",
      what, bucket, why);
}

void throw_precondition(const std::string& what, const Precondition& precondition) {
  if (precondition.must_be_absent) throw AlreadyExists("{}: it is there already", what);
  throw Aborted("{}: another writer has changed it meanwhile", what);
}

}  // namespace muster::stores
