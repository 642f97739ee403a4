#pragma once

namespace muster {

template <typename T>
class Dataset;
template <typename T>
class Iterator;
template <typename T>
class Stage;

}  // namespace muster
