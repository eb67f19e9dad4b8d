import { expect } from 'chai'
import { execFile, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import openapiTypes, { astToString } from 'openapi-typescript'
import type { ClientsHost } from './clients-host.js'
import { checkTranscript } from './transcript.js'

const program = resolve(import.meta.dirname, 'typed-program.txt')
const nodeModules = resolve(import.meta.dirname, '../../node_modules')

const configuration = {
  compilerOptions: {
    module: 'nodenext',
    target: 'es2023',
    strict: true,
    noEmit: true,
    // Skips the declaration files of packages, because their errors do not concern the API document.
    skipLibCheck: true,
    types: ['node'],
    exactOptionalPropertyTypes: true,
  },
}

/** Tests a client that is generated only from the published API document, with a program that uses it. */
export function describeTypedClient(host: ClientsHost): void {
  const directory = (): string => join(host.directory, 'typed')
  const file = (name: string): string => join(directory(), name)

  before(async () => {
    mkdirSync(directory())
    symlinkSync(nodeModules, file('node_modules'))
    writeFileSync(file('package.json'), '{ "type": "module" }')
    writeFileSync(file('tsconfig.json'), JSON.stringify({ ...configuration, include: ['*.ts'] }))
    const { text } = await host.send('GET', '/api/v1/openapi.json')
    writeFileSync(file('api.ts'), astToString(await openapiTypes(text)))
    copyFileSync(program, file('program.ts'))
  })

  /** Compiles the directory. @returns the messages of the compiler; empty if there are no errors */
  const compile = (): string =>
    spawnSync(process.execPath, [join(nodeModules, 'tsgo/bin/tsc'), '-p', directory()], { encoding: 'utf8' }).stdout

  it('is generated without manual changes, and a program that uses it compiles', () => expect(compile()).to.equal(''))

  it('creates, uses and deletes a container', async () => {
    const transcript = file('transcript')
    const env = { ...process.env, URL: host.url, KEY: host.key, TRANSCRIPT: transcript }
    const args = ['--import', 'tsx', file('program.ts')]
    const { stdout } = await promisify(execFile)(process.execPath, args, { env, timeout: 600_000 })
    const said = [
      'create done',
      'ports 1',
      'rows running',
      'snapshot restored',
      'schedule 03:30',
      'snapshots 0 of 5',
      'password 16',
      'reinstall done',
      'delete done',
      'then not_found',
    ]
    expect(stdout.trim().split('\n')).to.deep.equal(said)
    expect(await checkTranscript(host.url, transcript)).to.be.greaterThan(5)
  })

  it('has exact types, so that a value that the API accepts only for compatibility does not compile', () => {
    const wrong = (body: string): string => {
      const lines = [
        "import type { operations } from './api.js'",
        `export const body: operations['createContainer']['requestBody']['content']['application/json'] = ${body}`,
      ]
      writeFileSync(file('wrong.ts'), lines.join('\n'))
      return compile()
    }
    expect(wrong("{ name: 'a', template_id: 'b', ram_mb: '64' }")).to.include('wrong.ts').and.include('TS2322')
    expect(wrong("{ name: 'a' }")).to.include('TS2741')
    expect(wrong("{ name: 'a', template_id: 'b', ram_mb: 64 }")).to.equal('')
  })
}
