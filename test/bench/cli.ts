import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { arch, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { unpackPackage, type PublishedPackage } from '../../scripts/packaging/fetch.js'
import { FleetLab } from './fleet-lab.js'
import { figure, median, type Figure } from './figures.js'

const guests = 1000
const node = process.execPath
const nodeName = `Node.js ${process.versions.node.split('.')[0]}`

type Line = readonly string[]

/** Equivalent command lines of several tools, by the name of the tool. */
interface Row {
  readonly name: string
  readonly lines: Readonly<Record<string, Line>>
}

/** Prints the names in a list, as a program in bare Node.js would. */
const bareList = `require('http').get(process.argv[1], { headers: { 'x-api-key': process.env.BERTH_KEY } }, (answer) => {
  let text = ''
  answer.on('data', (part) => (text += part))
  answer.on('end', () => console.log(JSON.parse(text).data.map(({ id, name }) => id + ' ' + name).join('\\n')))
})`

/**
 * Compares the time that commands take with that of other installed tools, in Node.js (npm) and Go. The package
 * berth-cli brings its own Node.js; the file at /cli runs with the Node.js of the machine.
 */
export async function benchCli(rounds: number): Promise<Figure[]> {
  const lab = await FleetLab.start(1, guests, 0)
  const home = mkdtempSync(join(tmpdir(), 'btestbench-cli-'))
  try {
    // Omits NODE_EXTRA_CA_CERTS: at each start, Node.js 20 would read the certificates, which can take long.
    const { NODE_EXTRA_CA_CERTS: _, ...own } = process.env
    const env = { ...own, HOME: home, BERTH_URL: new URL(lab.url).origin, BERTH_KEY: lab.key }
    return rowsFor(lab.url).map(({ name, lines }) => figure(name, 'ms', measure(installed(lines), rounds, env)))
  } finally {
    await lab.close()
    rmSync(home, { recursive: true, force: true })
  }
}

/** Returns the path of the Node.js that the package berth-cli uses. */
function packagedNode(): string {
  const file = JSON.parse(readFileSync('packaging/runtime/node.json', 'utf8')) as Readonly<
    Record<'amd64' | 'arm64', Omit<PublishedPackage, 'version'>>
  > & { readonly version: string }
  const architecture = arch() === 'arm64' ? 'arm64' : 'amd64'
  const directory = resolve(`node_modules/.cache/berth-packages/node-${file.version}-${architecture}`)
  unpackPackage({ ...file[architecture], version: file.version }, directory)
  return join(directory, 'bin/node')
}

function rowsFor(url: string): Row[] {
  const runtime = packagedNode()
  const berth = (...words: string[]): Record<string, Line> => ({
    Berth: [runtime, resolve('dist/cli/main.js'), ...words],
    [`/cli with ${nodeName}`]: [node, resolve('dist/gateway/berth-cli.cjs'), ...words],
  })
  const bare = (...words: string[]): Record<string, Line> => ({
    'its Node.js': [runtime, '-e', ...words],
    [nodeName]: [node, '-e', ...words],
  })
  return [
    {
      name: 'version',
      lines: {
        ...berth('--version'),
        ...bare('0'),
        npm: ['npm', '--version'],
        kubectl: ['kubectl', 'version', '--client'],
        terraform: ['terraform', 'version'],
        docker: ['docker', '--version'],
      },
    },
    {
      name: 'help',
      lines: {
        ...berth('--help'),
        npm: ['npm', 'help'],
        kubectl: ['kubectl', '--help'],
        terraform: ['terraform', '-help'],
        docker: ['docker', '--help'],
      },
    },
    {
      name: `list of ${guests} guests`,
      lines: { ...berth('guest', 'list'), ...bare(bareList, `${url}/containers`) },
    },
    {
      name: 'completion of a command',
      lines: {
        ...berth('complete', '--', 'guest', 'sta'),
        kubectl: ['kubectl', '__complete', 'roll'],
        docker: ['docker', '__complete', 'sta'],
      },
    },
    { name: `completion of a name of ${guests}`, lines: berth('complete', '--', 'guest', 'stop', 'sim-5') },
  ]
}

/** Leaves out tools that are not installed. */
function installed(lines: Readonly<Record<string, Line>>): [string, Line][] {
  return Object.entries(lines).filter(([, [program = '']]) => spawnSync('which', [program]).status === 0)
}

/** Runs the command lines in turn. @returns the median of each in ms */
function measure(
  lines: readonly [string, Line][],
  rounds: number,
  env: NodeJS.ProcessEnv,
): Record<string, number | undefined> {
  const times = new Map(lines.map(([name]) => [name, [] as number[]]))
  for (let round = 0; round < rounds; round++)
    for (const [name, line] of lines) times.get(name)!.push(timeOf(line, env))
  return Object.fromEntries([...times].map(([name, list]) => [name, median(list)]))
}

function timeOf([program = '', ...args]: Line, env: NodeJS.ProcessEnv): number {
  const begun = performance.now()
  const { status, stderr } = spawnSync(program, args, { env, maxBuffer: 64 * 1024 * 1024 })
  const ms = performance.now() - begun
  if (status !== 0) throw new Error(`${program} ${args.slice(-3).join(' ')} ended with ${status}: ${stderr.toString()}`)
  return ms
}
