#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/distribution/wire/message_samples_internal.h"
#include "muster/distribution/wire/message_table_internal.h"
#include "muster/platform/net/frame_internal.h"
#include "muster/platform/net/handshake_internal.h"
#include "muster/testing/kept_files.h"
#include "muster/testing/temp_dir.h"

// Frames as released versions sent them, in tests/compatibility/v*/wire. Tasks of a run may be of
// two builds that say the same version in their handshake: then the bytes of every message must be
// the same, or numbers would be read into the wrong fields without an error. A folder has one frame
// per message, and in "hello" and "challenge" the first handshake messages of both sides, which
// begin with the version that the frames belong to.
namespace muster::internal {
namespace {

using ::testing::HasSubstr;
using testing::read_bytes;
using ::testing::StartsWith;
using testing::write_bytes;

const net::Identity kKeptIdentity{.task = "worker:1", .run_id = "run-a", .secret = "open sesame"};

ExpectedTensors kept_sizes() {
  return {.replicas = 8,
          .flat_size = 5,
          .tables = {{.rows = 9, .width = 2}, {.rows = 3, .width = 1}},
          .buffers = {at::arange(3, at::kFloat), at::full({}, 7, at::kLong)},
          .trainers = 30};
}

// ---------------------------------------------------------- values, by the names of fields

VariableTensors kept_variables() {
  return {.flat = at::arange(8, at::kFloat),
          .ranges = {{0, 2}, {4, 7}},
          .rows = {{at::arange(2, 5, at::kLong), at::arange(6, at::kFloat).view({3, 2})}, {}}};
}

BufferTensors kept_buffers() { return {.tensors = kept_sizes().buffers}; }

BodyBytes kept_bytes(std::string_view text) { return {.bytes = std::as_bytes(std::span(text))}; }

RunContract kept_terms() {
  return {.replicas = 2,
          .threads_per_replica = 3,
          .seed = 4,
          .precision = ComputeType::kFloat32,
          .arithmetic = "arithmetic",
          .last_step = 5,
          .others = {{.name = "clipping", .value = "global_norm 0.5"}}};
}

StepOutcome kept_outcome() {
  return {
      .present = 31, .examples = 32, .not_finite = "loss", .losses = {0.25, std::nullopt, -1.5}};
}

/// The message that was kept, field by field, with another value in each. Nothing for a message
/// that has no kept frame.
template <typename Message>
std::optional<Message> kept_message() {
  if constexpr (std::is_empty_v<Message>) return Message{};
  return std::nullopt;
}
template <>
std::optional<Join> kept_message() {
  return Join{.terms = kept_terms(),
              .address = "a:1",
              .is_chief = true,
              .is_server = false,
              .processors = {6, 7}};
}
template <>
std::optional<Ready> kept_message() {
  return Ready{.generation = 1, .progress = {.step = 2, .skipped_batches = 3}};
}
template <>
std::optional<Broken> kept_message() {
  return Broken{.generation = 1};
}
template <>
std::optional<PartWritten> kept_message() {
  return PartWritten{.id = "id", .index = "index", .failure = "failure"};
}
template <>
std::optional<Admitted> kept_message() {
  return Admitted{.terms = kept_terms()};
}
template <>
std::optional<Refused> kept_message() {
  return Refused{.why = "why"};
}
template <>
std::optional<GenerationPlan> kept_message() {
  return GenerationPlan{
      .number = 1,
      .members = {{.task = "chief:0", .address = "a:1", .replicas = {0, 3}},
                  {.task = "ps:0", .address = "b:2", .replicas = {3, 5}, .shares_processor = true}},
      .trainers = 1};
}
template <>
std::optional<Source> kept_message() {
  return Source{.generation = 1,
                .rank = 2,
                .to = {3, 4},
                .progress = {.step = 5, .skipped_batches = 6},
                .go_back = true};
}
template <>
std::optional<RunEnded> kept_message() {
  return RunEnded{.step = 1, .signal = 15};
}
template <>
std::optional<RunFailed> kept_message() {
  return RunFailed{.why = "why"};
}
template <>
std::optional<LogRun> kept_message() {
  return LogRun{.run = "run"};
}
template <>
std::optional<ChiefArguments> kept_message() {
  return ChiefArguments{.words = {"--steps", "5"}};
}
template <>
std::optional<StepGradients> kept_message() {
  return StepGradients{
      .step = 1,
      .sequence = 2,
      .replicas = {4, 6},
      .present = 7,
      .examples = 8,
      .reports = {{.loss = 0.5, .position = "position"}, {}},
      .sums = {{.first = 4, .last = 6, .sum = kept_variables()}, {.first = 5, .last = 6}},
      .buffers = kept_buffers(),
      .batches = {{.rank = 9, .present = 10, .examples = 11}}};
}
template <>
std::optional<SlicePart> kept_message() {
  return SlicePart{.values = kept_bytes("part")};
}
template <>
std::optional<SliceSum> kept_message() {
  return SliceSum{.values = kept_bytes("sum")};
}
template <>
std::optional<SnapshotHeader> kept_message() {
  return SnapshotHeader{.step = 1,
                        .skipped_batches = 2,
                        .inputs_from = 3,
                        .state_json = "{}",
                        .tensors = {{.name = "w", .type = at::kDouble, .bytes = 4}}};
}
template <>
std::optional<SnapshotPiece> kept_message() {
  return SnapshotPiece{.values = kept_bytes("piece")};
}
template <>
std::optional<DeviceGroup> kept_message() {
  return DeviceGroup{.id = "id"};
}
template <>
std::optional<AsyncPush> kept_message() {
  return AsyncPush{.replicas = {1, 3},
                   .present = 4,
                   .examples = 5,
                   .loss = 0.5,
                   .positions = {"position", std::nullopt},
                   .gradients = kept_variables(),
                   .buffers = kept_buffers()};
}
template <>
std::optional<Norms> kept_message() {
  return Norms{.step = 1, .squares = {.values = {0.5, 2}}};
}
template <>
std::optional<StepChoice> kept_message() {
  return StepChoice{.counted = {1, 2}, .late = {3}};
}
template <>
std::optional<PushArrived> kept_message() {
  return PushArrived{.rank = 1};
}
template <>
std::optional<Values> kept_message() {
  return Values{
      .step = 1,
      .outcome = kept_outcome(),
      .positions = {"position", std::nullopt},
      .skipped_batches = 2,
      .inputs_from = 3,
      .state_json = "{}",
      .notes = {.staleness = {.updates = 4, .sum = 5, .max = 6}, .too_old = 7, .dropped = true},
      .values = kept_variables(),
      .buffers = kept_buffers()};
}
template <>
std::optional<SlotsRequest> kept_message() {
  return SlotsRequest{.without_parts = true};
}
template <>
std::optional<SlotPiece> kept_message() {
  return SlotPiece{.values = kept_bytes("slot")};
}
template <>
std::optional<FolderRequest> kept_message() {
  return FolderRequest{.file = "file", .reply = "reply", .text = "text"};
}
template <>
std::optional<FolderAnswer> kept_message() {
  return FolderAnswer{.is_seen = true};
}
template <>
std::optional<PartRequest> kept_message() {
  return PartRequest{.id = "id", .name = "name", .shard = 1, .num_shards = 2};
}
template <>
std::optional<PartBegun> kept_message() {
  return PartBegun{.id = "id"};
}

// ---------------------------------------------------------- messages as text, for comparison

void describe(std::string& text, const at::Tensor& tensor) {
  text += fmt::format("{}[", c10::toString(tensor.scalar_type()));
  const at::Tensor values = tensor.reshape({-1}).to(at::kDouble);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    text += fmt::format("{} ", values[i].item<double>());
  }
  text += "] ";
}
void describe(std::string& text, const VariableTensors& value) {
  std::vector<at::Tensor> parts;
  parts.reserve(value.ranges.size());
  for (const FlatRange& range : value.ranges) {
    parts.push_back(value.flat.slice(0, range.first, range.last));
  }
  describe(text, at::cat(parts));
  for (const RowGradient& one : value.rows) {
    if (one.empty()) continue;
    describe(text, one.rows);
    describe(text, one.values);
  }
}

/// The fields of a message in the order of its fields(). Dense values that are sent in several
/// ranges arrive as one: their elements are what counts.
template <typename T>
void describe_fields(std::string& text, const T& value) {
  using Kind = FieldKind<T>;
  if constexpr (std::is_empty_v<T>) {
    return;
  } else if constexpr (std::same_as<T, VariableTensors>) {
    describe(text, value);
  } else if constexpr (std::same_as<T, BufferTensors>) {
    for (const at::Tensor& tensor : value.tensors) describe(text, tensor);
  } else if constexpr (std::same_as<T, BodyDoubles>) {
    text += fmt::format("{} ", fmt::join(value.values, " "));
  } else if constexpr (std::same_as<T, BodyBytes>) {
    text.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  } else if constexpr (std::same_as<T, std::string>) {
    text += fmt::format("\"{}\" ", value);
  } else if constexpr (Kind::is_optional) {
    if (value) return describe_fields(text, *value);
    text += "none ";
  } else if constexpr (Kind::is_list) {
    text += "[";
    for (const auto& one : value) describe_fields(text, one);
    text += "] ";
  } else if constexpr (HasFields<T>) {
    text += "{";
    std::apply([&](const auto&... field) { (describe_fields(text, field), ...); },
               fields_of(value));
    text += "} ";
  } else {
    text += fmt::format("{} ", static_cast<double>(value));
  }
}
template <typename Message>
std::string fields_as_text(const Message& message) {
  std::string text;
  describe_fields(text, message);
  return text;
}

// ---------------------------------------------------------- the folders

std::string frame_of(std::uint32_t number, const EncodedMessage& message) {
  const std::string body = samples::body_of(message);
  const auto prefix = net::encode(
      net::FramePrefix{.type = number,
                       .header_bytes = static_cast<std::uint32_t>(message.header.size()),
                       .body_bytes = body.size()});
  return std::string(reinterpret_cast<const char*>(prefix.data()), prefix.size()) + message.header +
         body;
}

template <typename Entry>
std::string file_of() {
  std::string name = fmt::format("{}_{}.frame", Entry::kNumber, Entry::kName);
  std::ranges::replace(name, ' ', '_');
  return name;
}

template <typename Work, typename... Entries>
void for_each_line(MessageList<Entries...>, const Work& work) {
  (work(std::type_identity<Entries>{}), ...);
}

/// Version of the handshake, "MUSTER/7".
std::string version_of(std::string_view hello) { return std::string(hello.substr(0, 8)); }

std::string client_hello() { return net::ClientHandshake(kKeptIdentity, "push", "").hello(); }

std::vector<std::filesystem::path> kept_folders() {
  std::vector<std::filesystem::path> folders;
  for (const auto& version : std::filesystem::directory_iterator(testing::kept_files_dir())) {
    if (exists(version.path() / "wire")) folders.push_back(version.path() / "wire");
  }
  return folders;
}

/// Writes the folder of this build's version.
void keep_frames(const std::filesystem::path& folder) {
  if (exists(folder)) throw AlreadyExists("{} is kept, and not written again", folder.string());
  create_directories(folder);
  const std::string hello = client_hello();
  net::ServerHandshake server(kKeptIdentity);
  std::string challenge = server.take(std::string_view(hello).substr(0, server.wanted()));
  challenge += server.take(std::string_view(hello).substr(12));
  write_bytes(folder / "hello", hello);
  write_bytes(folder / "challenge", challenge);
  for_each_line(MessageTable{}, [&]<typename Entry>(std::type_identity<Entry>) {
    const auto message = kept_message<typename Entry::Struct>();
    if (message) write_bytes(folder / file_of<Entry>(), frame_of(Entry::kNumber, encode(*message)));
  });
}

/// Decodes a frame of this version as its message, and compares all fields.
template <typename Entry>
void expect_kept(const std::filesystem::path& file) {
  using Message = typename Entry::Struct;
  const std::string bytes = read_bytes(file);
  ASSERT_GE(bytes.size(), net::kFramePrefixBytes) << file;
  const std::span<const char, net::kFramePrefixBytes> first(bytes.data(), net::kFramePrefixBytes);
  const auto prefix = net::decode_frame_prefix(std::as_bytes(first));
  ASSERT_EQ(bytes.size(), net::kFramePrefixBytes + prefix.header_bytes + prefix.body_bytes) << file;
  EXPECT_EQ(prefix.type, Entry::kNumber) << file;
  EXPECT_LE(prefix.header_bytes, message_limits(Entry::kNumber).max_header) << file;
  const std::string_view rest = std::string_view(bytes).substr(net::kFramePrefixBytes);
  const std::string header(rest.substr(0, prefix.header_bytes));
  const ExpectedTensors sizes = kept_sizes();
  const auto message =
      decode<Message>(header, samples::buffer_of(rest.substr(prefix.header_bytes)), sizes);
  const auto wanted = kept_message<Message>();
  ASSERT_TRUE(wanted) << file << ": kept_message() has no values for it";
  EXPECT_EQ(fields_as_text(message), fields_as_text(*wanted)) << file;
  EXPECT_EQ(frame_of(Entry::kNumber, encode(*wanted)), bytes)
      << file << ": the bytes of '" << Entry::kName
      << "' have changed. Count up kHandshakeMagic (platform/net/handshake.cpp), so that builds "
         "before and after refuse each other, and keep frames of the new version: "
         "tests/compatibility/make";
}

TEST(KeptFrames, OfThisVersionAreDecodedWithTheSameFields) {
  if (const char* folder = std::getenv("MUSTER_KEEP_FRAMES"); folder != nullptr) {
    keep_frames(folder);
  }
  const std::string version = version_of(client_hello());
  std::size_t folders = 0;
  for (const auto& folder : kept_folders()) {
    if (version_of(read_bytes(folder / "hello")) != version) continue;
    ++folders;
    std::set<std::string> known{"challenge", "hello"};
    for_each_line(MessageTable{}, [&]<typename Entry>(std::type_identity<Entry>) {
      const std::string file = file_of<Entry>();
      known.insert(file);
      if (exists(folder / file)) return expect_kept<Entry>(folder / file);
      EXPECT_FALSE(Entry::kIsReleased)
          << "'" << Entry::kName << "' has no frame in " << folder
          << ". Mark its line in MessageTable as kUnreleased: the next release keeps a frame of it "
             "(tests/compatibility/make)";
    });
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      EXPECT_TRUE(known.contains(file.path().filename()))
          << file.path() << " is of a message that the table does not have any more: count up "
          << "kHandshakeMagic (platform/net/handshake.cpp)";
    }
  }
  EXPECT_EQ(folders, 1U) << "folders tests/compatibility/v*/wire with frames of " << version
                         << ": tests/compatibility/make keeps those of a new version";
}

TEST(KeptFrames, EveryKeptVersionIsAcceptedOrRefusedByItsName) {
  const std::string version = version_of(client_hello());
  for (const auto& folder : kept_folders()) {
    net::ServerHandshake server(kKeptIdentity);
    net::ClientHandshake client(kKeptIdentity, "push", "");
    const std::string hello = read_bytes(folder / "hello");
    const std::string challenge = read_bytes(folder / "challenge");
    ASSERT_THAT(hello, StartsWith("MUSTER/"));
    std::string answer = server.take(std::string_view(hello).substr(0, 12));
    client.take(std::string_view(challenge).substr(0, 12));
    if (version_of(hello) != version) {
      EXPECT_EQ(server.refusal(), net::Refusal::kOtherVersion) << folder;
      EXPECT_EQ(client.refusal(), net::Refusal::kOtherVersion) << folder;
      EXPECT_THAT(server.reason(), HasSubstr("run the same build on all tasks"));
      continue;
    }
    answer += server.take(std::string_view(hello).substr(12));
    const std::string proof = client.take(std::string_view(challenge).substr(12));
    EXPECT_EQ(answer.size(), challenge.size()) << folder;
    EXPECT_EQ(answer.substr(0, 12), challenge.substr(0, 12)) << folder;
    EXPECT_EQ(version_of(proof), version) << folder;
    EXPECT_EQ(server.refusal(), net::Refusal::kNone) << folder;
    EXPECT_EQ(client.refusal(), net::Refusal::kNone) << folder;
  }
}

}  // namespace
}  // namespace muster::internal
