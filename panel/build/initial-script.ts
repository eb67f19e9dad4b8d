import { gzipSync } from 'node:zlib'
import type { Plugin, Rolldown } from 'vite'

type Bundle = Rolldown.OutputBundle

/** Fails the build if the scripts that a browser loads before the first page exceed this compressed size. */
export function boundInitialScript(maxBytes: number): Plugin {
  return {
    name: 'bound-initial-script',
    apply: 'build',
    generateBundle(_options, bundle) {
      const names = initialChunks(bundle)
      const bytes = names.reduce((sum, name) => sum + gzipSync(codeOf(bundle, name)).length, 0)
      const said = `initial JavaScript: ${(bytes / 1024).toFixed(1)} KiB in ${names.length} files, compressed`
      if (bytes > maxBytes) this.error(`${said}; at most ${maxBytes / 1024} KiB are allowed`)
      this.info(said)
    },
  }
}

/** Returns the entry chunks and everything that they import statically. */
function initialChunks(bundle: Bundle): string[] {
  const found = new Set<string>()
  const visit = (name: string): void => {
    const chunk = bundle[name]
    if (chunk?.type !== 'chunk' || found.has(name)) return
    found.add(name)
    chunk.imports.forEach(visit)
  }
  for (const [name, file] of Object.entries(bundle)) if (file.type === 'chunk' && file.isEntry) visit(name)
  return [...found]
}

function codeOf(bundle: Bundle, name: string): string {
  const file = bundle[name]
  return file?.type === 'chunk' ? file.code : ''
}
