#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/picture_internal.h"

namespace muster::executor {
namespace {

using graph::DataType;

PictureOptions picture_options(const graph::NodeDef& node) {
  const auto channels = graph::attr_or<std::int64_t>(node, "channels", 0);
  const auto ratio = graph::attr_or<std::int64_t>(node, "ratio", 1);
  const auto method = graph::attr_or<std::string>(node, "dct_method", "");
  if (channels < 0 || channels > 4) {
    throw InvalidArgument("channels must be 0, 1, 2, 3 or 4: {}", channels);
  }
  if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8) {
    throw InvalidArgument("ratio must be 1, 2, 4 or 8: {}", ratio);
  }
  if (!method.empty() && method != "INTEGER_FAST" && method != "INTEGER_ACCURATE") {
    throw InvalidArgument("dct_method must be INTEGER_FAST or INTEGER_ACCURATE: {}", method);
  }
  return {.channels = static_cast<int>(channels),
          .ratio = static_cast<int>(ratio),
          .fancy_upscaling = graph::attr_or<bool>(node, "fancy_upscaling", true),
          .exact_transform = method != "INTEGER_FAST",
          .recover_truncated = graph::attr_or<bool>(node, "try_recover_truncated", false),
          .acceptable_fraction = graph::attr_or<float>(node, "acceptable_fraction", 1.0F)};
}

// Samples of 8 bits, or of 16 in 32, with the greatest value that they can have.
struct Picture {
  at::Tensor samples;
  float greatest = 255;
};

Picture decode_picture(const Inputs& inputs, const std::string& bytes,
                       const PictureOptions& options) {
  Picture picture;
  std::vector<std::uint16_t> wide;
  const auto memory = [&](const PictureSize& size) -> unsigned char* {
    const std::array sizes{size.height, size.width, size.channels};
    // Samples of 16 bits are here twice, the second time in 32.
    inputs.check_room(sizes, size.bytes_per_sample == 2 ? at::kDouble : at::kByte);
    const auto count = size.height * size.width * size.channels;
    inputs.check_room(size.working_bytes + count * size.bytes_per_sample, 1);
    if (size.bytes_per_sample == 1) {
      picture.samples = at::empty(sizes, at::kByte);
      return picture.samples.data_ptr<std::uint8_t>();
    }
    picture.samples = at::empty(sizes, at::kInt);
    picture.greatest = 65535;
    wide.resize(static_cast<std::size_t>(count));
    return reinterpret_cast<unsigned char*>(wide.data());
  };
  if (is_jpeg(bytes)) {
    decode_jpeg(bytes, options, memory, [&] { inputs.budget().check_time(); });
  } else if (is_png(bytes)) {
    decode_png(bytes, options, memory);
  } else if (bytes.starts_with("GIF8") || bytes.starts_with("BM")) {
    throw Unimplemented("pictures in {}; JPEG and PNG can be decoded",
                        bytes.starts_with("BM") ? "BMP" : "GIF");
  } else {
    throw InvalidArgument("these {} bytes are neither a JPEG nor a PNG", bytes.size());
  }
  if (!wide.empty()) std::ranges::copy(wide, picture.samples.data_ptr<std::int32_t>());
  return picture;
}

// All of them take any kind of picture, as TensorFlow's do.
Kernel decode_image(const KernelContext& context) {
  PictureOptions options = picture_options(context.node);
  const auto type = scalar_type(graph::attr_or<DataType>(context.node, "dtype", DataType::kUint8));
  if (type != at::kByte && type != at::kFloat) {
    throw Unimplemented("pictures of the type {}", graph::name_of(data_type(type)));
  }
  options.keep_16_bits = type == at::kFloat;
  return [=](const Inputs& inputs) -> Slots {
    const Picture picture = decode_picture(inputs, inputs.string(0), options);
    if (type == at::kByte) return {picture.samples};
    inputs.check_room(picture.samples.sizes(), at::kFloat);
    return {picture.samples.to(at::kFloat).div_(picture.greatest)};
  };
}

}  // namespace

void add_image_ops(OpTable& table) {
  for (const auto* name : {"DecodeJpeg", "DecodePng", "DecodeImage"}) table.add(name, decode_image);
}

}  // namespace muster::executor
