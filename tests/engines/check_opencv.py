"""check_opencv.py FOLDER SIDE: OpenCV's dnn module gives out.NAME.npy for in.*.npy, from model.onnx and from model.pb.

SIDE is the height and width of the images.
"""

import sys

import cv2
import numpy as np

import compare

folder = sys.argv[1]
inputs = compare.arrays(folder, "in")
wanted = compare.arrays(folder, "out")
if len(inputs) != 1 or len(wanted) != 1:
    sys.exit("OpenCV is asked for one output of one input")
(x,) = inputs.values()
((name, expected),) = wanted.items()


def compare_net(what, net, images):
    worst = 0.0
    for begin in range(0, len(images), compare.ROWS):
        net.setInput(np.ascontiguousarray(images[begin:begin + compare.ROWS], np.float32))
        worst = max(worst, compare.expect_equal(name, net.forward(), expected[begin:begin + compare.ROWS]))
    print(f"OpenCV {cv2.__version__} {what}: {len(images)} examples, largest difference {worst:.2g}")


compare_net("ONNX", cv2.dnn.readNetFromONNX(f"{folder}/model.onnx"), x)
# Its TensorFlow side takes images as OpenCV has them, channels first, whatever the graph says.
side = int(sys.argv[2])
images = np.moveaxis(x.reshape(len(x), side, side, -1), 3, 1)
compare_net("TensorFlow", cv2.dnn.readNetFromTensorflow(f"{folder}/model.pb"), images)
