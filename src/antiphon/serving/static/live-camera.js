// Pictures of the camera, one a second.

import { openDevice, toBase64 } from "./live-device.js";

const FRAME_MS = 1000;
const MAX_SIDE = 640;
const JPEG_QUALITY = 0.7;

export class Camera {
  // Keeps the newest picture, one a second, until `take` asks for it.
  constructor(video) {
    this.video = video;
    this.canvas = document.createElement("canvas");
    this.newest = null;
  }

  async open(facing) {
    const size = { width: { ideal: MAX_SIDE }, height: { ideal: 480 } };
    this.stream = await openDevice({ video: { facingMode: facing, ...size } }, "camera");
    this.video.srcObject = this.stream;
    await this.video.play();
    this.timer = setInterval(() => this.draw(), FRAME_MS);
    this.draw();
  }

  draw() {
    const { videoWidth: width, videoHeight: height } = this.video;
    if (!width) return;
    const scale = Math.min(1, MAX_SIDE / Math.max(width, height));
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.getContext("2d").drawImage(this.video, 0, 0, this.canvas.width, this.canvas.height);
    this.canvas.toBlob(async (blob) => (this.newest = blob && toBase64(await blob.arrayBuffer())), "image/jpeg", JPEG_QUALITY);
  }

  take() {
    const frames = this.newest ? [this.newest] : [];
    this.newest = null;
    return frames;
  }

  close() {
    clearInterval(this.timer);
    this.stream?.getTracks().forEach((track) => track.stop());
    this.video.srcObject = null;
    this.newest = null;
  }
}
