extern torch::Tensor x, y;
