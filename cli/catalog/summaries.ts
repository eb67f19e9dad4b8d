/*
 * Summaries of commands that differ from those of the API. The API reports that a task is queued, but the command waits
 * for its end. Tests compare these tables with the API.
 */

/** Texts in place of the first sentence, by operation id. */
const firstSentences: Readonly<Record<string, string>> = {
  changeBoot: 'Changes the boot medium of a guest: the disk, a CD or a rescue system',
  createBackup: 'Backs up the current disk of a guest',
  createHost: 'Creates a host, but does not follow its installation as `berth host add` does',
  deleteBackup: 'Deletes a backup and all data that only this backup uses',
  deleteKeptBackup: 'Deletes a backup whose guest no longer exists',
  deleteOldCopy: 'Deletes an old copy with its snapshots',
  migrateContainer: 'Moves a guest to another host. `berth migrate` does the same and shows the plan first',
  reinstallContainer: 'Reinstalls a guest from a template: with a new disk and a new login',
  restartContainer: 'Restarts a guest',
  startContainer: 'Starts a guest',
  stopContainer: 'Stops a guest',
}

/** Texts in place of the whole summary, by operation id. */
const wholeTexts: Readonly<Record<string, string>> = {
  actOnContainers:
    'Starts, stops, restarts, deletes, reinstalls or suspends several guests. All guests are checked before the first one is changed. The API key needs the scope of the action. The action `suspend` requires `--reason`',
  cancelImageDownload: 'Cancels the download of an image, and deletes the downloaded part',
  changeSwap: 'Creates, resizes, enables, disables or deletes the swap file of a host',
  createContainer: 'Creates a guest. A failed creation is undone',
  createContainers: 'Creates several guests. All of them are checked before the first one is created',
  createSnapshot: 'Takes a snapshot of a guest',
  deleteContainer:
    'Deletes a guest and all its data. If `undo_delete_hours` of `berth deletion-settings get` is above 0, the guest is only stopped, gets the status `deleted`, and is removed after that time. `berth guest undelete` undoes the deletion until then. With `--now`, the guest is removed at once, also if it already has the status `deleted`',
  deleteSnapshot: 'Deletes a snapshot',
  downloadImage: 'Downloads an image, unless it is already downloaded',
  exportContainer:
    'Exports the settings and the files of an LXC container as a tar archive. The archive is complete only if the command succeeds',
  getFirewall: 'Shows the firewall of a guest',
  importContainer:
    'Creates a guest from an archive of `berth guest export`. Limits, tags, devices and port mappings are those in the archive, unless flags replace them. Host ports that are in use are replaced, see `notes`. If the import fails or is interrupted, the creation is undone',
  restoreBackupAsNew:
    'Creates a guest from a backup, also from a backup of a deleted guest. The flags are those of `berth guest create`. Without a flag, the new guest has the value that the original guest had when the backup was made; host ports and public addresses are chosen automatically. `--name` and `--image` are required for backups that an older version of Berth made. The API key also needs the scope `backup:restore`. The new guest gets its own login and host name, a new `machine-id` and new SSH host keys. A failed creation is undone',
  restoreSnapshot:
    'Restores a snapshot. A running guest is stopped at once and started again. Afterwards the disk has the passwords and keys that were on it when the snapshot was taken',
  upgradeHost:
    'Upgrades the agent of a host to the version of the gateway or, with `--rollback`, returns to the version that the host had before. Guests keep running. The command does not wait: the field `upgrade` of `berth host get` shows the progress',
}

/** Returns the summary of a command. @param summary text of the API, without the last period */
export function summaryOf(operationId: string, summary: string): string {
  const first = firstSentences[operationId]
  const text = wholeTexts[operationId] ?? (first === undefined ? summary : summary.replace(/^.*?(?=\. |$)/, first))
  return text.replace(/^Returns /, 'Shows ')
}

/** All operation ids that have a text here. */
export const summarizedOperations: readonly string[] = [...Object.keys(firstSentences), ...Object.keys(wholeTexts)]
