#include "muster/console/api_request.h"

#include <algorithm>
#include <charconv>

#include "muster/base/error.h"

namespace muster::console {
namespace {

constexpr std::size_t kMostParts = 16;
constexpr std::size_t kMostValues = 2000;

template <typename Take>
void split_at(std::string_view text, char separator, std::size_t most, const Take& take) {
  for (std::size_t i = 0; !text.empty(); ++i) {
    if (i >= most) throw InvalidArgument("the address of the request has too many parts");
    const auto end = text.find(separator);
    if (end != 0) take(text.substr(0, end));
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
  }
}

std::string decoded_value(std::string_view text) {
  std::string plain(text);
  std::ranges::replace(plain, '+', ' ');
  return serving::percent_decoded(plain);
}

}  // namespace

ApiRequest ApiRequest::parse(serving::HttpRequest request) {
  ApiRequest out{.method = std::move(request.method), .body = std::move(request.body)};
  const std::string_view target = request.target;
  const auto mark = target.find('?');
  split_at(target.substr(0, mark), '/', kMostParts,
           [&](std::string_view part) { out.path.push_back(serving::percent_decoded(part)); });
  if (mark == target.npos) return out;
  split_at(target.substr(mark + 1), '&', kMostValues, [&](std::string_view part) {
    const auto equals = part.find('=');
    out.query.emplace_back(decoded_value(part.substr(0, equals)),
                           equals == part.npos ? "" : decoded_value(part.substr(equals + 1)));
  });
  return out;
}

std::vector<std::string> ApiRequest::all(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : query) {
    if (key == name) values.push_back(value);
  }
  return values;
}

std::optional<std::string> ApiRequest::first(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::size_t ApiRequest::number(std::string_view name, std::size_t otherwise, std::size_t least,
                               std::size_t most) const {
  const auto text = first(name);
  if (!text) return otherwise;
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < least || value > most) {
    throw InvalidArgument("{} must be a number from {} to {}", name, least, most);
  }
  return value;
}

}  // namespace muster::console
