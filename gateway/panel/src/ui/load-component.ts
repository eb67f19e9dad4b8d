import LoadFailed from './LoadFailed.svelte'
import { reloadForNewVersion } from './reload.ts'

interface Module {
  readonly default: unknown
}

/**
 * Loads the script of a page or of a part of it. If it cannot be loaded because the gateway has a newer panel by now,
 * the page is reloaded once; otherwise its place says so and offers to try again.
 */
export async function loadComponent<M extends Module>(load: () => Promise<M>): Promise<M> {
  try {
    return await load()
  } catch {
    if (await reloadForNewVersion()) return new Promise(() => undefined)
    return { default: LoadFailed } as unknown as M
  }
}
