struct Image {};
Image flip(Image image);
extern muster::Dataset<Image> images;
