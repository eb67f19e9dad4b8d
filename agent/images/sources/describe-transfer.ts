import type { StageText } from '../../../shared/task-stages.js'
import type { DownloadProgress } from './transfer.js'

/** Returns the progress of a download as text, like `downloading: 12.5 of 98.0 MB, 3.1 MB/s`. */
export function describeTransfer({ receivedBytes, totalBytes, bytesPerSec }: DownloadProgress): StageText {
  const of = totalBytes > 0 ? ` of ${megabytes(totalBytes)}` : ''
  const speed = bytesPerSec > 0 ? `, ${megabytes(bytesPerSec)} MB/s` : ''
  return `downloading: ${megabytes(receivedBytes)}${of} MB${speed}`
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}
