/** Lets the browser save the answer of the gateway as a file. The gateway names the file. */
export function downloadFrom(path: string): void {
  const link = document.createElement('a')
  link.href = path
  link.download = ''
  link.click()
}

/** Lets the browser save a text as a file. */
export function download(name: string, text: string): void {
  // The byte order mark lets spreadsheets recognize UTF-8.
  const url = URL.createObjectURL(new Blob(['\uFEFF', text], { type: 'text/csv' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  URL.revokeObjectURL(url)
}
