// Generates protocol code from proto/ into proto/gen with buf and ts-proto, without downloads. Does nothing if neither
// the proto files nor the tools have changed since the last run.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'

const generated = 'proto/gen'
const stamp = `${generated}/.inputs`

function inputsDigest() {
  const protos = readdirSync('proto', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.proto'))
    .map((name) => `proto/${name}`)
  const tools = ['node_modules/ts-proto/package.json', 'node_modules/@bufbuild/buf/package.json']
  const hash = createHash('sha256')
  for (const file of ['buf.yaml', 'buf.gen.yaml', ...tools, ...protos.sort()])
    hash.update(`${file}\n`).update(readFileSync(file))
  return hash.digest('hex')
}

// Generates into a new directory, which then replaces the old one: builds never read incomplete code.
function generate(digest) {
  const aside = `.generated-${process.pid}`
  try {
    execFileSync('node_modules/.bin/buf', ['generate', '--output', aside], { stdio: 'inherit' })
    writeFileSync(`${aside}/${stamp}`, digest)
    rmSync(generated, { recursive: true, force: true })
    renameSync(`${aside}/${generated}`, generated)
  } finally {
    rmSync(aside, { recursive: true, force: true })
  }
}

const digest = inputsDigest()
if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== digest) generate(digest)
