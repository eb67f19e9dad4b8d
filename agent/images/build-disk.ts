import { randomUUID } from 'node:crypto'
import { cp, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { disableCopyOnWrite } from '../host/disk/btrfs.js'
import { CommandError, run } from '../host/process/process.js'
import { applyContent } from './apply-content.js'
import { planBootstrap } from './bootstrap-plan.js'
import { bootstrap, type BuildParts } from './build.js'
import type { Recipe } from './catalog.js'
import { findSources } from './mirror.js'
import { makeImage, scratchOf, type BuildContext } from './publish.js'
import { diskName } from './disks/install-disk.js'
import { coreModules, planCore, planDiskContent } from './disks/plan-content.js'
import { writeDisk } from './disks/write-disk.js'

const modulesOf = (tree: string): string => join(tree, 'usr/lib/grub/i386-pc')

/**
 * Builds the disk of a virtual machine from Debian's packages, with a boot loader. Needs neither a loop device nor a
 * mount. After a failure, no image exists.
 * @throws {BerthError} like `buildImage`, and `unsupported` on a host that is not amd64
 */
export async function buildDisk(parts: BuildParts, recipe: Recipe, making: BuildContext): Promise<void> {
  if (recipe.arch !== 'amd64') throw new BerthError('invalid', 'unsupported', 'disk images can only be built for amd64')
  making.report(0, 'asking the mirror')
  const sources = await findSources(recipe, parts.mirror, making.signal)
  await makeImage(parts, recipe.id, making, async (work) => {
    // The tree is not part of the published image, so it is built in a separate directory. After a failure, this
    // directory is removed together with the image's directory.
    const place = join(scratchOf(work), 'build')
    const tree = join(place, 'tree')
    try {
      await mkdir(place, { recursive: true, mode: 0o700 })
      await bootstrap(place, planBootstrap(recipe, tree, sources), making)
      making.report(0.9, 'writing the disk')
      await disableCopyOnWrite(work)
      await fillDisk(join(work, diskName), tree, recipe)
    } finally {
      await rm(scratchOf(work), { recursive: true, force: true })
    }
  })
}

async function fillDisk(disk: string, tree: string, recipe: Recipe): Promise<void> {
  const rootUuid = randomUUID()
  await applyContent(tree, planDiskContent(recipe, { rootUuid, kernel: await findKernel(tree) }))
  await cp(modulesOf(tree), join(tree, 'boot/grub/i386-pc'), { recursive: true })
  const core = await makeCore(tree, rootUuid)
  try {
    await writeDisk({ disk, tree, core, boot: join(modulesOf(tree), 'boot.img'), rootUuid })
  } catch (cause) {
    if (!(cause instanceof CommandError)) throw cause
    throw new BerthError('internal', 'image_build_failed', 'the disk image cannot be written', { cause })
  }
}

async function findKernel(tree: string): Promise<string> {
  const kernels = (await readdir(join(tree, 'boot'))).flatMap((name) => /^vmlinuz-(.+)$/.exec(name)?.[1] ?? [])
  const kernel = kernels.sort().at(-1)
  if (kernel === undefined)
    throw new BerthError('internal', 'image_build_failed', 'the file system of the image contains no kernel')
  return kernel
}

/**
 * Builds GRUB's core with the tree's own programs, so that the programs and GRUB's modules have the same version.
 * @returns the path of the core outside the tree
 */
async function makeCore(tree: string, rootUuid: string): Promise<string> {
  const early = 'boot/grub/early.cfg'
  const core = 'boot/grub/core.img'
  await writeFile(join(tree, early), planCore(rootUuid))
  const command = ['grub-mkimage', '-O', 'i386-pc', '-d', '/usr/lib/grub/i386-pc', '-p', '/boot/grub']
  await run('chroot', [tree, ...command, '-c', `/${early}`, '-o', `/${core}`, ...coreModules])
  await rm(join(tree, early))
  return join(tree, core)
}
