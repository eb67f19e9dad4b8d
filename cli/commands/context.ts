import { configFile, readContexts, writeContexts, type Contexts } from '../contexts/config-file.js'
import { getContext } from '../contexts/connection.js'
import { formatResult } from '../output/print.js'
import { outputOptions, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export async function listContexts(options: GlobalOptions, surroundings: Surroundings): Promise<void> {
  const { current, contexts } = await readOwn(surroundings)
  const rows = Object.entries(contexts).map(([name, { url, key }]) => ({
    name,
    url,
    key: `${key.slice(0, 8)}…`,
    current: name === current,
  }))
  const output = outputOptions(options, 'context list', surroundings.width)
  surroundings.writeOut(await formatResult(rows, '', output))
  if (rows.length === 0) surroundings.writeError('no context is stored; log in to a gateway: berth login URL\n')
}

export async function chooseContext(name: string, surroundings: Surroundings): Promise<void> {
  const all = await readOwn(surroundings)
  getContext(all, name)
  await write(surroundings, { ...all, current: name })
}

export async function removeContext(name: string, surroundings: Surroundings): Promise<void> {
  const all = await readOwn(surroundings)
  getContext(all, name)
  const { [name]: _, ...contexts } = all.contexts
  await write(surroundings, { current: all.current === name ? '' : all.current, contexts })
}

const readOwn = ({ env, home }: Surroundings): Promise<Contexts> => readContexts(configFile(env, home))
const write = ({ env, home }: Surroundings, contexts: Contexts): Promise<void> =>
  writeContexts(configFile(env, home), contexts)
