#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/data/features/batch.h"
#include "muster/data/records/csv.h"
#include "muster/data/records/parse_spec.h"

namespace muster {

/// A tensor over the memory of `values`, which it takes: nothing is copied. Throws InvalidArgument
/// when the shape does not hold as many values as there are.
at::Tensor tensor_of(std::vector<std::int32_t> values, std::vector<std::int64_t> shape);
at::Tensor tensor_of(std::vector<std::int64_t> values, std::vector<std::int64_t> shape);
at::Tensor tensor_of(std::vector<float> values, std::vector<std::int64_t> shape);
at::Tensor tensor_of(std::vector<double> values, std::vector<std::int64_t> shape);

/// The columns of parsed Examples under their keys, without work per value. `specs` are the ones
/// they were decoded with: FixedLen becomes a tensor or strings of [rows, shape...], VarLen a
/// ragged column or ragged strings. `owner` keeps the bytes alive that strings are views of: the
/// records and the decoder. Throws InvalidArgument when columns and specs do not belong together.
Features to_features(ParsedColumns columns, const FeatureSpecs& specs,
                     std::shared_ptr<const void> owner);

/// The columns of parsed CSV rows under their names, each of shape [rows]; ignored fields are left
/// out. `owner` keeps the text of the rows and the decoder alive.
Features to_features(CsvColumns columns, std::shared_ptr<const void> owner);

/// Moves the columns with these names out of `features`, to be the labels. Throws NotFound.
Batch split_labels(Features features, const std::vector<std::string>& label_names = {kLabel});

}  // namespace muster
