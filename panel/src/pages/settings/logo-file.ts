/** Maximum width and height of a logo in pixels. Pages show logos at most at half of this size. */
const maxWidth = 512
const maxHeight = 128
/** Maximum size in bytes that the gateway accepts. */
const maxBytes = 128 * 1024

/**
 * Draws a picture of any format that the browser can show, at a suitable size. Scripts in an SVG file do not run, and
 * only the pixels are sent to the gateway.
 * @returns a PNG file in base64
 * @throws {Error} if the browser cannot show the file, or if the PNG file has too many bytes even after scaling down
 */
export async function readLogo(file: File): Promise<string> {
  const url = URL.createObjectURL(file)
  try {
    const picture = new Image()
    picture.src = url
    await picture.decode()
    return await encode(picture)
  } finally {
    URL.revokeObjectURL(url)
  }
}

async function encode(picture: HTMLImageElement): Promise<string> {
  // An SVG file without width and height can have the natural size 0. It is drawn as a square.
  const [width, height] = [picture.naturalWidth || maxHeight, picture.naturalHeight || maxHeight]
  const fitting = Math.min(1, maxWidth / width, maxHeight / height)
  for (const scale of [fitting, fitting / 2, fitting / 4]) {
    const blob = await draw(picture, Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale)))
    if (blob !== null && blob.size <= maxBytes) return toBase64(blob)
  }
  throw new Error('the picture is too large')
}

function draw(picture: HTMLImageElement, width: number, height: number): Promise<Blob | null> {
  const canvas = Object.assign(document.createElement('canvas'), { width, height })
  canvas.getContext('2d')?.drawImage(picture, 0, 0, width, height)
  return new Promise((resolve) => canvas.toBlob(resolve, 'image/png'))
}

async function toBase64(blob: Blob): Promise<string> {
  const bytes = new Uint8Array(await blob.arrayBuffer())
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
}
