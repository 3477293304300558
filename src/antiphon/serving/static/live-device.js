// What the browser lends: microphone, camera and worklets, and why it does not.

export const toBase64 = (buffer) => {
  let text = "";
  for (const byte of new Uint8Array(buffer)) text += String.fromCharCode(byte);
  return btoa(text);
};

export const openDevice = async (constraints, what) => {
  if (!navigator.mediaDevices) {
    throw new Error(`Browsers give the ${what} only to pages that come over HTTPS or from this very computer.`);
  }
  try {
    return await navigator.mediaDevices.getUserMedia(constraints);
  } catch (error) {
    if (error.name === "NotAllowedError") throw new Error(`The browser was not allowed to use the ${what}.`);
    if (error.name === "NotFoundError") throw new Error(`No ${what} was found.`);
    throw new Error(`The ${what} cannot be used: ${error.message}`);
  }
};

export const loadWorklet = async (context, file) => {
  try {
    await context.audioWorklet.addModule(file);
  } catch {
    throw new Error("A part of this page could not be loaded: the server does not answer.");
  }
};
