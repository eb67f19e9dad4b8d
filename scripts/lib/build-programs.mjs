// Builds the product's programs into dist: node scripts/lib/build-programs.mjs
import { cpSync } from 'node:fs'
import { join, relative } from 'node:path'
import { bundle } from './bundle.mjs'

// What is lazily loaded is in files of its own, beside the program.
async function buildProgram(outdir, sources) {
  const placeOf = (file) =>
    `new URL(${JSON.stringify(relative(outdir, join('dist', file)))}, import.meta.url).href`
  await bundle({ entryPoints: sources, outdir, entryNames: '[name]', chunkNames: '[name]-[hash]' }, placeOf)
}

await Promise.all([
  buildProgram('dist/agent', ['agent/main.ts', 'agent/config-worker.ts']),
  buildProgram('dist/agent/console', ['agent/console/main.ts']),
  buildProgram('dist/gateway', ['gateway/main.ts']),
])
cpSync('agent/host/perl', 'dist/agent/host/perl', { recursive: true })
