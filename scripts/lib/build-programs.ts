// Builds the programs of the product into dist: node --import tsx scripts/lib/build-programs.ts
import { cpSync } from 'node:fs'
import { join, relative } from 'node:path'
import { bundle } from './bundle.js'
import { writeCliFiles } from './cli-files.js'

/** Bundles a program into one file. Dynamically imported code becomes separate files next to it. */
async function buildProgram(outdir: string, sources: string[]): Promise<void> {
  const addressOf = (file: string): string =>
    `new URL(${JSON.stringify(relative(outdir, join('dist', file)))}, import.meta.url).href`
  await bundle({ entryPoints: sources, outdir, entryNames: '[name]', chunkNames: '[name]-[hash]' }, addressOf)
}

await Promise.all([
  buildProgram('dist/agent', ['agent/main.ts', 'agent/config-worker.ts']),
  buildProgram('dist/agent/console', ['agent/console/main.ts']),
  buildProgram('dist/gateway', ['gateway/main.ts']),
  buildProgram('dist/cli', ['cli/main.ts']),
])
cpSync('agent/host/perl', 'dist/agent/host/perl', { recursive: true })
cpSync('gateway/sockets/store-descriptors.pl', 'dist/gateway/sockets/store-descriptors.pl')
cpSync('gateway/join/install', 'dist/gateway/join/install', { recursive: true })
await writeCliFiles()
